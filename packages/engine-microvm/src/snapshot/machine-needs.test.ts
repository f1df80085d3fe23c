import { expect, it } from 'vitest'
import { type MachineHost, machineProblem } from './machine-needs.ts'

const emulated: MachineHost = {
  machine: { accelerator: 'tcg', qemuVersion: '7.2.0', kernel: '6.1' },
  clockKhz: 2_000_000,
}
const processor = { arch: 'x64', kernel: '6.1.0', cpuFlags: ['avx', 'sse'] }
const withKvm: MachineHost = { machine: { ...emulated.machine, accelerator: 'kvm' }, processor }

const changed = (host: MachineHost, machine: Partial<MachineHost['machine']>): MachineHost => ({
  ...host,
  machine: { ...host.machine, ...machine },
})

it.each([
  ['the same', emulated, emulated, undefined],
  ['its clock as measured again', emulated, { ...emulated, clockKhz: 2_000_300 }, undefined],
  ['another clock', emulated, { ...emulated, clockKhz: 2_400_000 }, /counts 2000 MHz.* 2400 MHz/],
  ['KVM', emulated, withKvm, /taken with tcg, and this host has kvm/],
  ['another QEMU', emulated, changed(emulated, { qemuVersion: '8.0.0' }), /QEMU 7.2.0.* 8.0.0/],
  ['another guest kernel', emulated, changed(emulated, { kernel: '6.6' }), /Linux 6.1.* Linux 6.6/],
  [
    'a processor with more',
    withKvm,
    { ...withKvm, processor: { ...processor, cpuFlags: ['avx', 'sse', 'x'] } },
    undefined,
  ],
  [
    'a processor with less',
    withKvm,
    { ...withKvm, processor: { ...processor, cpuFlags: ['sse'] } },
    /lacks avx/,
  ],
  ['no machines', emulated, undefined, 'it has no virtual machines'],
  ['something else', emulated, { machine: 'new' }, /another version of the engine/],
] as const)('compares a snapshot with a host that has %s', (_, needs, abilities, problem) => {
  const found = machineProblem(needs, abilities)
  if (problem instanceof RegExp) expect(found).toMatch(problem)
  else expect(found).toBe(problem)
})
