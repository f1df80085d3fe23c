import type { BurrowLimits, LayerId, SnapshotId } from '@dormouse/contracts'
import type { CreateBurrow } from '@dormouse/engine'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import type { Template } from '../template/template-store.ts'
import type { BurrowRecord } from './burrow-record.ts'
import type { LinuxBurrow } from './linux-burrow.ts'
import { type BurrowHost, startBurrow } from './start-burrow.ts'

export interface BurrowParts {
  readonly request: Omit<CreateBurrow, 'volumes'>
  readonly volumes?: BurrowRecord['volumes']
  readonly limits: BurrowLimits
  readonly template: Template
  readonly toolsDir: string
  /** Files of a snapshot to boot on. */
  readonly files?: { readonly layers: readonly LayerId[]; readonly snapshotId: SnapshotId }
}

const AGENT = ['/usr/bin/python3', '-I', '-B', '-S', '/.dormouse/guest/dormouse_agent']
const AGENT_ENV = [
  'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  'LANG=C.UTF-8',
  'HOME=/root',
  `LD_PRELOAD=/.dormouse/${GUARD_IN_TOOLS}`,
  'DORMOUSE_AGENT_SOCKET=/.dormouse/run/agent.sock',
  'DORMOUSE_READY_FD=3',
]

/** Boots a burrow: the agent starts from scratch. Everything else is a restore. */
export function bootBurrow(host: BurrowHost, parts: BurrowParts, signal?: AbortSignal): Promise<LinuxBurrow> {
  const { request, volumes = [], limits, template, toolsDir, files } = parts
  const { sandboxId, user, env } = request
  return startBurrow(host, {
    sandboxId,
    template,
    limits,
    toolsDir,
    layers: files?.layers ?? [],
    ...(files !== undefined && { parent: files.snapshotId }),
    volumes,
    memoryFiles: [],
    clocks: { monotonicNs: 0n, boottimeNs: 0n },
    agent: AGENT,
    agentEnv: AGENT_ENV,
    introduce: (burrow) => burrow.guest.configure({ sandboxId, ...(user && { user }), ...(env && { env }) }),
    signal,
  })
}
