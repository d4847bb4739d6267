package filestore

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// openClock returns the clock that all processes of this host share, which
// counts the time suspended and cannot be set, and the id of this boot, since
// when it counts.
func openClock() (boot string, clock func() time.Duration, err error) {
	const path = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err == nil {
		defer key.Close()
		var id uint64
		if id, _, err = key.GetIntegerValue("BootId"); err == nil {
			return fmt.Sprintf("boot %d", id), windows.DurationSinceBoot, nil
		}
	}
	return "", nil, fmt.Errorf(`%w: the registry value HKLM\%s\BootId cannot be read, without which a hold from before a reboot cannot be told: %w`, store.ErrUnsupported, path, err)
}
