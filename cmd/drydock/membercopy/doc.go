// Package membercopy copies all claims of one member. Its steps run one after the other, in containers of one pod:
//
//	First   makes passes beside the running member until the forecast of the final pass is below the longest stop
//	Final   waits beside the running member, keeps the remaining work short by further passes, and makes the final pass on a signal
//	Pin     keeps the pod running after the final pass, and with it the volumes attached
//
// Package moverreport is the contract with the functions. Package mover copies one volume. The claims are copied one after
// the other.
package membercopy
