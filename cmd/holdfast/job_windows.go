package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// contain puts the process, and everything it starts from now on, into a job object, and returns
// a function that kills all of it. Windows also does that when we end, in any way, as we never
// close the object. If there is no job object, only the process is killed.
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
