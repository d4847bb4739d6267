package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// The oldest server that has what the scripts use.
const (
	needMajor = 6
	needMinor = 0
)

// Check implements [store.Checker]. A server that does not let the user ask is
// not checked, and that is no failure. An error matches store.ErrUnsupported
// if a server is too old.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	servers, err := s.masters(ctx)
	if err != nil {
		return nil, s.failed("look for the servers", err)
	}
	for _, server := range servers {
		info, err := server.Info(ctx).Result()
		if err != nil {
			if err = s.failed("look at the server", err); errors.Is(err, store.ErrDenied) {
				continue
			}
			return nil, err
		}
		if version := field(info, "redis_version"); tooOld(version) {
			return nil, fmt.Errorf("%w: %s is Redis %s: %d.%d or newer is needed", store.ErrUnsupported, s.address, version, needMajor, needMinor)
		}
		if policy := field(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
			warnings = append(warnings, fmt.Sprintf("%s, port %s, has maxmemory-policy %s: when its memory is full it may drop locks that are held; set it to noeviction",
				s.address, field(info, "tcp_port"), policy))
		}
	}
	return warnings, nil
}

// field is the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// tooOld is false of a version that it cannot read.
func tooOld(version string) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(a)
	minor, _ := strconv.Atoi(b)
	return err == nil && (major < needMajor || major == needMajor && minor < needMinor)
}
