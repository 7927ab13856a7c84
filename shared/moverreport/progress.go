package moverreport

// Phase of a copy.
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

// Progress is how far a phase has come. Bytes are data bytes of regular files, hard links once and holes not; the total
// is an estimate until a file was read. Files are all entries but directories. Totals grow during the scan.
type Progress struct {
	Phase      Phase `json:"phase"`
	BytesDone  int64 `json:"bytesDone"`
	BytesTotal int64 `json:"bytesTotal"`
	FilesDone  int64 `json:"filesDone"`
	FilesTotal int64 `json:"filesTotal"`
	// Steps counts what moves neither bytes nor files: directories that are made or finished, names that are deleted.
	Steps int64 `json:"steps,omitempty"`

	// Of a waiting mover.
	Claim           string  `json:"claim,omitempty"`           // the volume claim template; "" while it waits
	Pass            int     `json:"pass,omitempty"`            // counts the first passes; 0 in the final pass
	ForecastSeconds float64 `json:"forecastSeconds,omitempty"` // of the final pass, when the last first pass ended
}
