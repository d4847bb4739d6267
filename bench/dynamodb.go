package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dynamostore"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// barePutItem is the minimum cost of a DynamoDB lock, and the reference: write an item if it does not exist, and
// delete it.
const barePutItem = "PutItem if absent + DeleteItem"

var onDynamoDB = []contender{
	onStore(openOnDynamoDB),
	{name: barePutItem, open: openBarePutItem, alone: true},
}

// dynamoClient returns a client with its own connections.
func dynamoClient(addr string) (client *dynamodb.Client, end func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	return dynamodb.New(dynamodb.Options{
		Region: testserver.DynamoDBRegion, BaseEndpoint: aws.String("http://" + addr), HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: testserver.AWSAccess, SecretAccessKey: testserver.AWSSecret}, nil
		}),
	}), transport.CloseIdleConnections
}

func openOnDynamoDB(addr string, o *holdfast.Options) (ours, error) {
	client, end := dynamoClient(addr)
	s, err := dynamostore.New(client, &dynamostore.Options{Table: testserver.DynamoDBTable})
	return oursOn(s, err, o, end)
}

// lockBarePutItem cannot wait, only retry, so it is for names without contention.
type lockBarePutItem struct {
	client *dynamodb.Client
	end    func()
}

func openBarePutItem(addr string) (locks, error) {
	client, end := dynamoClient(addr)
	return lockBarePutItem{client, end}, nil
}

func (l lockBarePutItem) lock(ctx context.Context, name string) (func() error, error) {
	table := aws.String(testserver.DynamoDBTable)
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberB{Value: []byte("bare/" + name)}}
	for {
		_, err := l.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: key, ConditionExpression: aws.String("attribute_not_exists(id)")})
		if err == nil {
			return func() error {
				_, err := l.client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: table, Key: key})
				return err
			}, nil
		}
		if taken := (*types.ConditionalCheckFailedException)(nil); !errors.As(err, &taken) {
			return nil, err
		}
	}
}

func (l lockBarePutItem) close() error {
	l.end()
	return nil
}

// dynamoTitle describes the server in the rows.
func dynamoTitle() (string, error) {
	server, _, err := testserver.Chosen("dynamodb")
	if err != nil {
		return "", err
	}
	version, err := server.Version()
	return "dynalite " + version + " on the loopback, a server by others, in memory", err
}

// fewOnDynamoDB is how many clients come at once. Each counts as a process: it makes its trial and a session before
// its first claim. The server has one thread.
var fewOnDynamoDB = []int{30, 100}

func startManyDynamoDB(context.Context) (running, error) {
	title, err := dynamoTitle()
	if err != nil {
		return running{}, err
	}
	server, end, err := startIn(testserver.StartDynamoDB)
	if err != nil {
		return running{}, err
	}
	return running{server.Addr, title, nil, end}, nil
}

func dynamoSuite(ctx context.Context, s setup) error {
	at, err := startManyDynamoDB(ctx)
	if err != nil {
		return err
	}
	defer at.stop()
	s = s.at(at.server)
	if err := uncontended(ctx, s, "DynamoDB", barePutItem, onDynamoDB, at.target, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "DynamoDB", barePutItem, "dynamodb", onDynamoDB, at.target)
}
