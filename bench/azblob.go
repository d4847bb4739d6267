package main

import (
	"bytes"
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/azblobstore"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// barePutBlob is the minimum cost of a lock of Azure Blob Storage, and the reference: write a blob if it does not
// exist, and delete it.
const barePutBlob = "Put Blob if absent + Delete Blob"

var onAzure = []contender{
	onStore(openOnAzure),
	{name: barePutBlob, open: openBarePutBlob, alone: true},
}

// azureClient returns a client with its own connections.
func azureClient(addr string) (client *container.Client, end func(), err error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	key, err := container.NewSharedKeyCredential(testserver.AzureAccount, testserver.AzureKey)
	if err != nil {
		return nil, nil, err
	}
	client, err = container.NewClientWithSharedKeyCredential(testserver.AzureEndpoint(addr)+"/"+testserver.AzureContainer, key,
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	return client, transport.CloseIdleConnections, err
}

func openOnAzure(addr string, o *holdfast.Options) (ours, error) {
	client, end, err := azureClient(addr)
	if err != nil {
		return ours{}, err
	}
	s, err := azblobstore.New(client, nil)
	return oursOn(s, err, o, end)
}

// lockBarePutBlob cannot wait, only retry, so it is for names without contention.
type lockBarePutBlob struct {
	client *container.Client
	end    func()
}

func openBarePutBlob(addr string) (locks, error) {
	client, end, err := azureClient(addr)
	return lockBarePutBlob{client, end}, err
}

func (l lockBarePutBlob) lock(ctx context.Context, name string) (func() error, error) {
	b := l.client.NewBlockBlobClient("bare/" + name)
	none := azcore.ETagAny
	absent := &blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &none}}}
	for {
		_, err := b.Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), absent)
		if err == nil {
			return func() error {
				_, err := b.Delete(context.Background(), nil)
				return err
			}, nil
		}
		if !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
			return nil, err
		}
	}
}

func (l lockBarePutBlob) close() error {
	l.end()
	return nil
}

// fewOnAzure is how many clients come at once. Each counts as a process: it makes its trial and a session before its
// first claim. The server has one thread.
var fewOnAzure = []int{30, 100}

func startManyAzure(context.Context) (running, error) {
	chosen, _, err := testserver.Chosen("azblob")
	if err != nil {
		return running{}, err
	}
	version, err := chosen.Version()
	if err != nil {
		return running{}, err
	}
	server, end, err := startIn(testserver.StartAzure)
	if err != nil {
		return running{}, err
	}
	return running{server.Addr, "Azurite " + version + " on the loopback, Microsoft's emulator, in memory", nil, end}, nil
}

func azureSuite(ctx context.Context, s setup) error {
	at, err := startManyAzure(ctx)
	if err != nil {
		return err
	}
	defer at.stop()
	s = s.at(at.server)
	if err := uncontended(ctx, s, "Azure Blob", barePutBlob, onAzure, at.target, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "Azure Blob", barePutBlob, "azblob", onAzure, at.target)
}
