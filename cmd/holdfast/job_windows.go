package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// contain puts the process, and whatever it starts from now on, into a job
// object, and returns how to kill all of it. Windows does that too when we end,
// however we do: we never close the object. Where it cannot be had the process
// alone is killed.
func contain(p *os.Process) (kill func()) {
	plain := func() { p.Kill() }
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return plain
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return plain
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return plain
	}
	defer windows.CloseHandle(process)
	if windows.AssignProcessToJobObject(handle, process) != nil {
		return plain
	}
	return func() { windows.TerminateJobObject(handle, 1) }
}
