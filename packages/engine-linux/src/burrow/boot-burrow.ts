import type { BurrowLimits, LayerId, SnapshotId } from '@dormouse/contracts'
import type { CreateBurrow } from '@dormouse/engine'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import { RUNTIME_PYTHON } from '../runtime/prepare-runtime.ts'
import { SCRATCH } from '../template/scratch-template.ts'
import type { Template } from '../template/template-store.ts'
import { lockAgentSocket } from './agent-socket.ts'
import type { BurrowHost } from './burrow-host.ts'
import type { BurrowRecord } from './burrow-record.ts'
import { launchBurrow } from './launch-burrow.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { discardSpare } from './spare.ts'

export interface BootBurrow {
  readonly request: Omit<CreateBurrow, 'volumes'> & { readonly cwd?: string }
  readonly volumes?: BurrowRecord['volumes']
  readonly limits: BurrowLimits
  readonly template: Template
  readonly toolsDir: string
  /** Files of a snapshot to boot on. */
  readonly files?: { readonly layers: readonly LayerId[]; readonly snapshotId: SnapshotId }
  readonly signal?: AbortSignal | undefined
}

const AGENT = {
  argv: ['/usr/bin/python3', '-I', '-B', '-S', '/.dormouse/guest/dormouse_agent'],
  env: [
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'LANG=C.UTF-8',
    'HOME=/root',
    `LD_PRELOAD=/.dormouse/${GUARD_IN_TOOLS}`,
    'DORMOUSE_AGENT_SOCKET=/.dormouse/run/agent.sock',
    'DORMOUSE_READY_FD=3',
  ],
}

/** An image has no Python that the agent could rely on. */
const AGENT_OF_IMAGE = { ...AGENT, argv: [`/.dormouse/${RUNTIME_PYTHON}`, ...AGENT.argv.slice(1)] }

/**
 * Makes a burrow whose agent starts from scratch; `restoreBurrow` is the other way to make one. On failure nothing of
 * the burrow is left.
 */
export async function bootBurrow(host: BurrowHost, boot: BootBurrow): Promise<LinuxBurrow> {
  const { files, request, signal } = boot
  const { sandboxId, user, env, cwd } = request
  signal?.throwIfAborted()
  const spare = await host.spares.take()
  try {
    spare.restorer?.cancel()
    const launched = await launchBurrow(host, spare, {
      sandboxId,
      template: boot.template,
      toolsDir: boot.toolsDir,
      limits: boot.limits,
      ...(files !== undefined && { layers: files.layers, parent: files.snapshotId }),
      volumes: boot.volumes ?? [],
      agent: boot.template.name === SCRATCH ? AGENT_OF_IMAGE : AGENT,
      signal,
    })
    await lockAgentSocket(launched.first)
    const burrow = new LinuxBurrow(host, launched)
    const identity = { sandboxId, ...(user && { user }), ...(env && { env }), ...(cwd && { cwd }) }
    await burrow.publish(burrow.guest.configure(identity))
    return burrow
  } catch (error) {
    await discardSpare(spare, host.hierarchies)
    throw error
  }
}
