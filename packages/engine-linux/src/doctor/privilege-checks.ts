import { readFile } from 'node:fs/promises'
import { type Check, fail, ok, warn } from './check.ts'

/** Bit numbers from linux/capability.h. */
const NEEDED = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_ADMIN: 12,
  SYS_CHROOT: 18,
  SYS_PTRACE: 19,
  SYS_ADMIN: 21,
} as const
const USEFUL = { SYS_NICE: 23, SYS_RESOURCE: 24, SYS_TIME: 25, CHECKPOINT_RESTORE: 40 } as const

export async function checkPrivileges(): Promise<Check[]> {
  const subject = {
    id: 'capabilities',
    title: 'Privileges of the server',
    meaning: 'the server makes namespaces and mounts; sandboxes get none of these privileges',
  }
  const status = await readFile('/proc/self/status', 'utf8')
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`)
  const lacks = (wanted: Readonly<Record<string, number>>) =>
    Object.entries(wanted)
      .filter(([, bit]) => ((effective >> BigInt(bit)) & 1n) === 0n)
      .map(([name]) => name)
  const needed = lacks(NEEDED)
  const useful = lacks(USEFUL)
  if (needed.length > 0) {
    return [
      fail(
        subject,
        `missing: ${needed.join(' ')}`,
        'Run as root, outside containers that drop capabilities.',
      ),
    ]
  }
  if (useful.length > 0) {
    const mend = 'Optional. Without them CRIU may not raise its limits. Run with all capabilities.'
    return [warn(subject, `all that are needed; missing but optional: ${useful.join(' ')}`, mend)]
  }
  return [ok(subject, 'all that are needed')]
}
