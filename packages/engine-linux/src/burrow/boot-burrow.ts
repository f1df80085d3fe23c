import type { BurrowLimits, LayerId, SnapshotId } from '@dormouse/contracts'
import type { CreateBurrow, ProgramSettings } from '@dormouse/engine'
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
  readonly request: Omit<CreateBurrow, 'volumes'>
  readonly volumes?: BurrowRecord['volumes']
  readonly limits: BurrowLimits
  readonly template: Template
  readonly toolsDir: string
  /** Files of a snapshot to boot on. */
  readonly files?: { readonly layers: readonly LayerId[]; readonly snapshotId: SnapshotId }
  readonly image?: ProgramSettings | undefined
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
  const { sandboxId } = request
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
      image: boot.image,
      agent: boot.template.name === SCRATCH ? AGENT_OF_IMAGE : AGENT,
      signal,
    })
    await lockAgentSocket(launched.first)
    const burrow = new LinuxBurrow(host, launched)
    await burrow.publish(burrow.guest.configure({ sandboxId, ...startOf(boot) }))
    return burrow
  } catch (error) {
    await discardSpare(spare, host.hierarchies)
    throw error
  }
}

/** What the caller asks for comes before what the image says. */
function startOf({ request, image }: BootBurrow): Partial<ProgramSettings> {
  const user = request.user ?? image?.user
  const env = image === undefined ? request.env : { ...image.env, ...request.env }
  return { ...(user && { user }), ...(env && { env }), ...(image && { cwd: image.cwd }) }
}
