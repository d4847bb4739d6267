package filestore

import "testing"

func TestKindsOfFileSystems(t *testing.T) {
	for magic, want := range map[uint32]string{
		0xEF53: "ext", 0x01021994: "tmpfs", 0x794C7630: "overlay", 0x58465342: "xfs", 0x9123683E: "btrfs",
	} {
		if kind, local := fsKind(magic); kind != want || !local {
			t.Errorf("%#x: got %q, local %v", magic, kind, local)
		}
	}
	for magic, want := range map[uint32]string{
		0x6969: "NFS", 0xFE534D42: "SMB2", 0xFF534D42: "CIFS", 0x65735546: "FUSE", 0x01021997: "9p", 0x12345: "0x12345, which is not known",
	} {
		if kind, local := fsKind(magic); kind != want || local {
			t.Errorf("%#x: got %q, local %v", magic, kind, local)
		}
	}
	if kind, local, err := kindOfFS("/proc"); local || err != nil {
		t.Errorf("/proc: got %q, local %v, %v", kind, local, err)
	}
}
