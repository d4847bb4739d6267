package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/s3store"
)

// bareConditional is the minimum cost of an S3 lock, and the reference: write an object if it does not exist, and
// delete it.
const bareConditional = "If-None-Match + delete"

var onS3 = []contender{
	onStore(openOnS3),
	{name: bareConditional, open: openBareConditional, alone: true},
}

// s3Client returns a client with its own connections.
func s3Client(addr string) (client *s3.Client, end func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	return s3.New(s3.Options{
		Region: testserver.S3Region, BaseEndpoint: aws.String("http://" + addr), UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: testserver.AWSAccess, SecretAccessKey: testserver.AWSSecret}, nil
		}),
	}), transport.CloseIdleConnections
}

func openOnS3(addr string, o *holdfast.Options) (ours, error) {
	client, end := s3Client(addr)
	s, err := s3store.New(client, testserver.S3Bucket, nil)
	return oursOn(s, err, o, end)
}

// lockBareConditional cannot wait, only retry, so it is for names without contention. Its keys are in no directory:
// versitygw deletes a directory with its last object, and then refuses some writes of others there.
type lockBareConditional struct {
	client *s3.Client
	end    func()
}

func openBareConditional(addr string) (locks, error) {
	client, end := s3Client(addr)
	return lockBareConditional{client, end}, nil
}

func (l lockBareConditional) lock(ctx context.Context, name string) (func() error, error) {
	bucket, key := aws.String(testserver.S3Bucket), aws.String("bare-"+strings.ReplaceAll(name, " ", "_"))
	for {
		_, err := l.client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, IfNoneMatch: aws.String("*"), Body: strings.NewReader("held")})
		if err == nil {
			return func() error {
				_, err := l.client.DeleteObject(context.Background(), &s3.DeleteObjectInput{Bucket: bucket, Key: key})
				return err
			}, nil
		}
		var answer *smithyhttp.ResponseError
		if !errors.As(err, &answer) || answer.HTTPStatusCode() != http.StatusPreconditionFailed {
			return nil, err
		}
	}
}

func (l lockBareConditional) close() error {
	l.end()
	return nil
}

// s3Title describes the server in the rows.
func s3Title() (string, error) {
	server, _, err := testserver.Chosen("s3")
	if err != nil {
		return "", err
	}
	version, err := server.Version()
	return "versitygw " + version + " on the loopback, objects in files, not synced", err
}

// fewOnS3 is how many clients come at once. On S3 each counts as a process: it sends some 19 requests before its
// first claim is answered. On two cores versitygw serves some thousand requests a second: all of 100 clients get the
// lock, and few of 300.
var fewOnS3 = []int{30, 100}

// startManyS3 has the server log a line for each request; the requests are counted from the
// log.
func startManyS3(context.Context) (running, error) {
	title, err := s3Title()
	if err != nil {
		return running{}, err
	}
	var log string
	server, end, err := startIn(func(dir string) (*testserver.Server, error) {
		log = filepath.Join(dir, "requests.log")
		return testserver.StartS3(dir, "--access-log", log)
	})
	if err != nil {
		return running{}, err
	}
	return running{server.Addr, title + ", with an access log", countS3(log), end}, nil
}

func s3Suite(ctx context.Context, s setup) error {
	title, err := s3Title()
	if err != nil {
		return err
	}
	server, stop, err := startIn(func(dir string) (*testserver.Server, error) { return testserver.StartS3(dir) })
	if err != nil {
		return err
	}
	defer stop()
	s = s.at(title)
	if err := uncontended(ctx, s, "S3", bareConditional, onS3, server.Addr, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "S3", bareConditional, "s3", onS3, server.Addr)
}
