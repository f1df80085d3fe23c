export { MicrovmEngine } from './microvm-engine.ts'
export type { MicrovmEngineOptions } from './open-host.ts'
export { findQemu } from './qemu/find-qemu.ts'
export { findGuestKernel, installGuestKernel, KERNEL_PIN } from './template/guest-kernel.ts'
