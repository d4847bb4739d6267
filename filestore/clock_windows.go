package filestore

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/store"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// openClock returns the id of this boot, and the clock since boot that all processes
// of this host share. The clock includes time suspended and cannot be set.
func openClock() (boot string, clock func() time.Duration, err error) {
	id, err := bootOfLoader()
	if err == nil && id == 0 { // Wine has the field but leaves it 0
		id, err = bootOfPrefetch()
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: the number of this boot cannot be read, so holds from before a reboot cannot be recognized: %w", store.ErrUnsupported, err)
	}
	clock = sinceBoot
	if interruptTime.Find() != nil { // Wine, whose tick count has a resolution of 1 ms
		clock = windows.DurationSinceBoot
	}
	return fmt.Sprintf("boot %d", id), clock, nil
}

// clockTick is the unit of the clock.
const clockTick = time.Millisecond

// interruptTime counts since boot, including time suspended, in units of 100 ns. Windows 10
// and later have it. The Windows tick count advances only every 16 ms, so a hold could expire
// that much too early.
var interruptTime = windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryInterruptTimePrecise")

// sinceBoot reads interruptTime.
func sinceBoot() time.Duration {
	var units uint64
	interruptTime.Call(uintptr(unsafe.Pointer(&units)))
	return time.Duration(units) * 100
}

// bootOfLoader returns the number that the loader of Windows 10, Windows Server 2016
// and later assigns to each boot. It is the field BootId of KUSER_SHARED_DATA, a page
// that the kernel shares with each process. The address of the page and the offset of
// the field are fixed (ntddk.h of the Windows driver kit). A container sees the number
// and the clock of its host.
func bootOfLoader() (uint64, error) {
	const page, bootID = 0x7FFE0000, 0x2C4
	var b [4]byte
	var n uintptr
	if err := windows.ReadProcessMemory(windows.CurrentProcess(), page+bootID, &b[0], uintptr(len(b)), &n); err != nil {
		return 0, fmt.Errorf("KUSER_SHARED_DATA.BootId: %w", err)
	}
	return uint64(binary.LittleEndian.Uint32(b[:])), nil
}

// bootOfPrefetch returns the boot number that prefetch records, on machines that have prefetch.
func bootOfPrefetch() (uint64, error) {
	const path = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return 0, fmt.Errorf(`KUSER_SHARED_DATA.BootId is 0, and HKLM\%s: %w`, path, err)
	}
	defer key.Close()
	id, _, err := key.GetIntegerValue("BootId")
	if err != nil {
		return 0, fmt.Errorf(`KUSER_SHARED_DATA.BootId is 0, and HKLM\%s\BootId: %w`, path, err)
	}
	return id, nil
}
