package main

import (
	"context"
	"path/filepath"

	"drydock.dev/test/cluster/host"
)

// redisPackages lists Debian's Redis, and those of its libraries that a minimal Debian lacks.
var redisPackages = []string{"redis-tools", "libatomic1", "libjemalloc2", "liblzf1", "libssl3", "libsystemd0"}

// importRedis builds an image of Debian's Redis with a shell, and imports it.
func (p places) importRedis(ctx context.Context) error {
	r, err := p.nodeRuntime(ctx)
	if err != nil {
		return err
	}
	root, err := host.UnpackPackages(ctx, p.bin(), redisPackages...)
	if err != nil {
		return err
	}
	shell, err := busybox(ctx)
	if err != nil {
		return err
	}
	shell.Name = "dev.local/redis:dev"
	redis, err := shell.WithPrograms(map[string]string{
		"bin/redis-server": filepath.Join(root, "usr", "bin", "redis-check-rdb"), // the same program acts by the name of its file
		"bin/redis-cli":    filepath.Join(root, "usr", "bin", "redis-cli"),
	}, root, "/")
	if err != nil {
		return err
	}
	return r.importImage(ctx, redis)
}
