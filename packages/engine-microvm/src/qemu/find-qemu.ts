import { access, constants, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { runCommand } from '@dormouse/engine-linux/for-engines'

export const QEMU = '/usr/bin/qemu-system-x86_64'
export const QEMU_IMG = '/usr/bin/qemu-img'
/** A guest without a kernel ends at once where KVM works. */
const PROBE_TIMEOUT_MS = 10_000

export interface FoundQemu {
  readonly version: string
  readonly accelerator: 'kvm' | 'tcg'
  /** Why it is not KVM. */
  readonly whyNotKvm?: string
}

/** Returns undefined when QEMU is not installed. */
export async function findQemu(wanted?: 'kvm' | 'tcg'): Promise<FoundQemu | undefined> {
  const { exitCode, stdout } = await runCommand({ argv: [QEMU, '--version'] })
  const version = /version (\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  if (exitCode !== 0 || version === undefined) return undefined
  if (wanted === 'tcg') return { version, accelerator: 'tcg', whyNotKvm: 'emulation was asked for' }
  const why = await whyNotKvm()
  if (why === undefined) return { version, accelerator: 'kvm' }
  if (wanted === 'kvm')
    throw new DormouseError('host_unsupported', `This host has no KVM that works: ${why}.`)
  return { version, accelerator: 'tcg', whyNotKvm: why }
}

/**
 * Starts a machine whose first instructions write to a port that ends QEMU. A /dev/kvm that can be opened may still not
 * run a guest, for example inside another virtual machine.
 */
async function whyNotKvm(): Promise<string | undefined> {
  const canOpen = await access('/dev/kvm', constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  )
  if (!canOpen) return '/dev/kvm cannot be opened'
  // A kernel without these offers KVM only to guests that are made for it (PVM). Others start there, and then hang.
  if (!/^flags\s*:.*\b(vmx|svm)\b/m.test(await readFile('/proc/cpuinfo', 'utf8')))
    return 'the processor offers no virtualization (vmx or svm) here'
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-kvm-'))
  try {
    const bios = join(directory, 'probe')
    await writeFile(bios, probeBios())
    const { exitCode, ending } = await runCommand({
      argv: [
        QEMU,
        ...['-M', 'microvm,accel=kvm,acpi=off', '-cpu', 'host', '-m', '64', '-nodefaults'],
        ...['-no-user-config', '-display', 'none', '-no-reboot', '-bios', bios],
        ...['-device', 'isa-debug-exit,iobase=0xf4,iosize=1'],
      ],
      timeoutMs: PROBE_TIMEOUT_MS,
    })
    return exitCode === 1 ? undefined : `a probe of it ${ending}`
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** `mov al, 0; out 0xf4, al; hlt`, in the last 16 bytes, which the processor executes first. */
function probeBios(): Buffer {
  const bios = Buffer.alloc(64 * 1024)
  bios.set([0xb0, 0x00, 0xe6, 0xf4, 0xf4], bios.length - 16)
  return bios
}
