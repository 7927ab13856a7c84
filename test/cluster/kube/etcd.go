package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand is etcd with the few settings a cluster of one member needs.
func newEtcdCommand() *cobra.Command {
	var dataDir, client, peer string
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "The store of the API server, one member, on loopback",
		RunE: func(*cobra.Command, []string) error {
			config, err := etcdConfig(dataDir, client, peer)
			if err != nil {
				return err
			}
			return runEtcd(config)
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "where the data is kept")
	cmd.Flags().StringVar(&client, "listen-client-urls", "", "the address for the API server")
	cmd.Flags().StringVar(&peer, "listen-peer-urls", "", "the address for other members")
	return cmd
}

// etcdConfig does not sync to disk: the cluster is thrown away after a crash of the machine, and writes of a test
// run would otherwise wait for the disk.
func etcdConfig(dataDir, client, peer string) (*embed.Config, error) {
	clientURL, err := url.Parse(client)
	if err != nil {
		return nil, fmt.Errorf("reading --listen-client-urls: %w", err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return nil, fmt.Errorf("reading --listen-peer-urls: %w", err)
	}
	config := embed.NewConfig()
	config.Dir = dataDir
	config.LogLevel = "warn"
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = []url.URL{*clientURL}
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config, nil
}

func runEtcd(config *embed.Config) error {
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd ended: %w", err)
	}
}
