package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/k8sstore"
)

// bareLease is the minimum cost of a lock of Kubernetes, and the reference: create a Lease, and delete it.
const bareLease = "create a Lease + delete it"

var onKubernetes = []contender{
	onStore(openOnKubernetes),
	{name: bareLease, open: openBareLease, alone: true},
}

// kubernetesConfig returns the settings for the server and the namespace of a target.
func kubernetesConfig(target string) (config *rest.Config, namespace string) {
	addr, namespace, _ := strings.Cut(target, " ")
	return &rest.Config{Host: "https://" + addr, BearerToken: testserver.KubernetesToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}, namespace
}

func openOnKubernetes(target string, o *holdfast.Options) (ours, error) {
	config, namespace := kubernetesConfig(target)
	s, err := k8sstore.New(config, &k8sstore.Options{Namespace: namespace})
	return oursOn(s, err, o, func() {})
}

// lockBareLease cannot wait, only retry, so it is for names without contention.
type lockBareLease struct{ leases client.LeaseInterface }

func openBareLease(target string) (locks, error) {
	config, namespace := kubernetesConfig(target)
	c, err := client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return lockBareLease{c.Leases(namespace)}, nil
}

func (l lockBareLease) lock(ctx context.Context, name string) (func() error, error) {
	name = "bare-" + strings.ReplaceAll(name, "/", "-")
	holder := "bench"
	for {
		_, err := l.leases.Create(ctx, &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{HolderIdentity: &holder}}, meta.CreateOptions{})
		if err == nil {
			return func() error { return l.leases.Delete(context.Background(), name, meta.DeleteOptions{}) }, nil
		}
		if !api.IsAlreadyExists(err) {
			return nil, err
		}
	}
}

func (l lockBareLease) close() error { return nil }

// fewOnKubernetes is how many clients come at once. Each counts as a process: it makes its trial and a session before
// its first claim.
var fewOnKubernetes = []int{30, 100}

func startManyKubernetes(context.Context) (running, error) {
	server, _, err := testserver.Chosen("kubernetes")
	if err != nil {
		return running{}, fmt.Errorf("%w, as scripts/servers kubernetes has not built the server", errNoServer)
	}
	version, err := server.Version()
	if err != nil {
		return running{}, err
	}
	etcd, endEtcd := testserver.ExampleEtcd()
	started, end, err := startIn(func(dir string) (*testserver.Server, error) { return testserver.StartKubernetes(dir, etcd) })
	if err != nil {
		endEtcd()
		return running{}, err
	}
	at := running{started.Addr + " bench", "kube-apiserver " + version + " with etcd on the loopback, without fsync", nil, func() { end(); endEtcd() }}
	if err := testserver.KubernetesNamespace(started.Addr, "bench"); err != nil {
		at.stop()
		return running{}, err
	}
	return at, nil
}

func kubernetesSuite(ctx context.Context, s setup) error {
	at, err := startManyKubernetes(ctx)
	if errors.Is(err, errNoServer) {
		return s.absent("Kubernetes", err.Error())
	}
	if err != nil {
		return err
	}
	defer at.stop()
	s = s.at(at.server)
	if err := uncontended(ctx, s, "Kubernetes", bareLease, onKubernetes, at.target, 1, 64); err != nil {
		return err
	}
	return handoff(ctx, s, "Kubernetes", bareLease, "kubernetes", onKubernetes, at.target)
}
