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

// openClock returns the clock that all processes of this host share, which
// counts the time suspended and cannot be set, and the id of this boot, since
// when it counts.
func openClock() (boot string, clock func() time.Duration, err error) {
	id, err := bootOfLoader()
	if err == nil && id == 0 { // Wine has the field, and leaves it empty
		id, err = bootOfPrefetch()
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: the number of this boot cannot be read, so holds from before a reboot cannot be recognized: %w", store.ErrUnsupported, err)
	}
	clock = sinceBoot
	if interruptTime.Find() != nil { // Wine, whose tick count is of single milliseconds
		clock = windows.DurationSinceBoot
	}
	return fmt.Sprintf("boot %d", id), clock, nil
}

// clockTick is the unit of the clock.
const clockTick = time.Millisecond

// interruptTime counts since the boot, the time suspended too, in units of 100 ns. Windows
// 10 and later have it. Their tick count stands still for up to 16 ms: by it a hold could
// expire that much too early.
var interruptTime = windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryInterruptTimePrecise")

// sinceBoot reads that clock.
func sinceBoot() time.Duration {
	var units uint64
	interruptTime.Call(uintptr(unsafe.Pointer(&units)))
	return time.Duration(units) * 100
}

// bootOfLoader returns the number that the loader of Windows 10, Windows Server
// 2016 and later gives to each boot. It is the field BootId of the page that the
// kernel shares with each process, KUSER_SHARED_DATA, as ntddk.h of the Windows
// driver kit describes it: the page's address and the offset of the field are
// fixed. A container has the number and the clock of its host.
func bootOfLoader() (uint64, error) {
	const page, bootID = 0x7FFE0000, 0x2C4
	var b [4]byte
	var n uintptr
	if err := windows.ReadProcessMemory(windows.CurrentProcess(), page+bootID, &b[0], uintptr(len(b)), &n); err != nil {
		return 0, fmt.Errorf("KUSER_SHARED_DATA.BootId: %w", err)
	}
	return uint64(binary.LittleEndian.Uint32(b[:])), nil
}

// bootOfPrefetch returns the number of this boot as prefetch notes it, on machines that have it.
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
