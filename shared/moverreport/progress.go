package moverreport

// Phase is a phase of a copy.
type Phase string

// The phases, in their order.
const (
	PhaseScan   Phase = "scan"
	PhaseCopy   Phase = "copy"
	PhaseSync   Phase = "sync"
	PhaseVerify Phase = "verify"
	// PhaseWait is between two passes of a waiting mover.
	PhaseWait Phase = "wait"
)

// Progress is the progress of a phase. Bytes are data bytes of regular files; hard links count once, and holes do not
// count. The total is an estimate until all files were read. Files are all entries except directories. Totals grow
// during the scan.
type Progress struct {
	Phase      Phase `json:"phase"`
	BytesDone  int64 `json:"bytesDone"`
	BytesTotal int64 `json:"bytesTotal"`
	FilesDone  int64 `json:"filesDone"`
	FilesTotal int64 `json:"filesTotal"`
	// Steps counts work that moves no bytes or files: directories that are created or finished, names that are deleted.
	Steps int64 `json:"steps,omitempty"`

	// Set by a waiting mover.
	Claim           string  `json:"claim,omitempty"`           // the volume claim template; "" while it waits
	Pass            int     `json:"pass,omitempty"`            // number of the first pass; 0 in the final pass
	ForecastSeconds float64 `json:"forecastSeconds,omitempty"` // forecast of the final pass at the end of the last first pass
}
