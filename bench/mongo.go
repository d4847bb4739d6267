package main

import (
	"context"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mongostore"
)

// mongoEnv names the server, as for the tests: we cannot start one.
const mongoEnv = "HOLDFAST_TEST_MONGODB"

// bareInsert is the minimum cost of a MongoDB lock, and the reference: insert a document, which
// fails if it exists, and delete it. A majority has each write in its journal, as with
// holdfast.
const bareInsert = "insert + delete"

var errNoMongoDB = fmt.Errorf("%w, as no server is named; name one in %s: mongodb://host:27017/", errNoServer, mongoEnv)

var onMongoDB = []contender{
	onStore(openOnMongoDB),
	{name: bareInsert, open: openBareInsert, alone: true},
}

// mongoDatabase is the only database that the suite writes to. It is not dropped: its documents
// are few and small.
const mongoDatabase = "holdfast_bench"

func openOnMongoDB(uri string, o *holdfast.Options) (ours, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return ours{}, err
	}
	s, err := mongostore.New(client.Database(mongoDatabase), nil)
	return oursOn(s, err, o, func() { client.Disconnect(context.Background()) })
}

// lockBareInsert cannot wait, only retry, so it is for names without contention.
type lockBareInsert struct{ c *mongo.Collection }

func openBareInsert(uri string) (locks, error) {
	journal := true
	durable := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(durable).SetRetryWrites(false)) // as holdfast does
	if err != nil {
		return nil, err
	}
	return lockBareInsert{client.Database(mongoDatabase).Collection("bare")}, nil
}

func (l lockBareInsert) lock(ctx context.Context, name string) (func() error, error) {
	for {
		_, err := l.c.InsertOne(ctx, bson.D{{Key: "_id", Value: name}})
		if err == nil {
			return func() error {
				_, err := l.c.DeleteOne(context.Background(), bson.D{{Key: "_id", Value: name}})
				return err
			}, nil
		}
		if !mongo.IsDuplicateKeyError(err) {
			return nil, err
		}
	}
}

func (l lockBareInsert) close() error {
	return l.c.Database().Client().Disconnect(context.Background())
}

// mongoTitle describes the server in the rows.
func mongoTitle(ctx context.Context, uri string) (string, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", err
	}
	defer client.Disconnect(context.Background())
	var info struct{ Version string }
	err = client.Database(mongoDatabase).RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	return fmt.Sprintf("MongoDB %s, a majority has what was written in its journal", info.Version), err
}

// mongoSuite measures on the named server. Without one it measures nothing: the figures of a
// simulated server would mean nothing.
func mongoSuite(ctx context.Context, s setup) error {
	uri := os.Getenv(mongoEnv)
	if uri == "" {
		return s.absent("MongoDB", errNoMongoDB.Error())
	}
	title, err := mongoTitle(ctx, uri)
	if err != nil {
		return err
	}
	s = s.at(title)
	if err := uncontended(ctx, s, "MongoDB", bareInsert, onMongoDB, uri, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "MongoDB", bareInsert, "mongo", onMongoDB, uri)
}
