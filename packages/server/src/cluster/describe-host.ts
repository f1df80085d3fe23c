import { createHash } from 'node:crypto'
import { readFileSync, statfsSync, statSync } from 'node:fs'
import { arch, cpus, loadavg, release, totalmem } from 'node:os'
import type { HostDescription } from '@dormouse/cluster'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import { VERSION } from '../version.ts'

export interface DescribeHost {
  readonly id: string
  readonly dataDir: string
  readonly address: () => string
  readonly ssh?: (() => HostDescription['ssh']) | undefined
  readonly isCordoned: () => boolean
  readonly holds?: (() => readonly string[]) | undefined
  readonly drain?: (() => HostDescription['drain']) | undefined
  readonly sandboxes: Sandboxes
  readonly abilities: () => Pick<HostDescription, 'abilities' | 'isolations'>
  readonly forms?: readonly string[]
  readonly fetchesBases?: boolean
  readonly stateFormat?: number
  readonly minFreeDiskBytes: number
}

/** What this host says of itself. */
export function describeHost(options: DescribeHost): () => HostDescription {
  const { id, dataDir, address, ssh, isCordoned, drain, holds, sandboxes, abilities, forms } = options
  const { fetchesBases, stateFormat, minFreeDiskBytes } = options
  const startedAt = new Date().toISOString()
  const instance = instanceOf(dataDir)
  const cpu = describeCpu()
  return () => {
    const { bavail, bsize, blocks } = statfsSync(dataDir)
    const all = [...sandboxes.all()]
    return {
      ...{
        id,
        address: address(),
        ssh: ssh?.(),
        version: VERSION,
        startedAt,
        instance,
        isCordoned: isCordoned(),
        drain: drain?.(),
        holds: holds && [...holds()],
        ...abilities(),
        ...(forms && { forms: [...forms] }),
        ...(fetchesBases && { fetchesBases }),
        ...(stateFormat && { stateFormat }),
      },
      ...{ arch: arch(), kernel: release(), cpu },
      room: {
        memoryTotalBytes: totalmem(),
        memoryFreeBytes: availableBytes(),
        diskTotalBytes: blocks * bsize,
        diskFreeBytes: bavail * bsize,
        cpus: cpus().length,
      },
      minFreeDiskBytes,
      load: {
        running: all.filter(({ row }) => row.state === 'running').length,
        sandboxes: all.length,
        cpu: loadavg()[0] ?? 0,
      },
    }
  }
}

/** Hosts with the same fingerprint have the same CPU features, so each can take all sandboxes of the other. */
function describeCpu(): NonNullable<HostDescription['cpu']> {
  const info = readFileSync('/proc/cpuinfo', 'latin1')
  const features = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(info)?.[1]?.split(/\s+/).sort() ?? []
  const fingerprint = createHash('sha256').update(features.join(' ')).digest('hex').slice(0, 8)
  return { model: cpus()[0]?.model ?? 'unknown', fingerprint }
}

/**
 * The lock of the data directory holds within one boot of one machine. Containers may have copies of it at the same path,
 * so its inode counts, too.
 */
function instanceOf(dataDir: string): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  const { dev, ino } = statSync(dataDir)
  return createHash('sha256').update(`${boot} ${dataDir} ${dev} ${ino}`).digest('hex').slice(0, 16)
}

function availableBytes(): number {
  const found = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'))?.[1]
  return found === undefined ? 0 : Number(found) * 1024
}
