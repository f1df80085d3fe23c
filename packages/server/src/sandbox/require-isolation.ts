import { DormouseError, type Isolation } from '@dormouse/contracts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Throws when the engine for this isolation is missing here, or cannot do what the sandbox asks for. */
export function requireIsolation(
  { engine }: Pick<SandboxDependencies, 'engine'>,
  isolation: Isolation,
  wants: Partial<Pick<SandboxRow, 'wakeOnTimer' | 'atMemoryLimit'>> & {
    readonly volumes?: readonly unknown[]
  },
): void {
  const { volumes, timers, waitsAtMemoryLimit } = engine.capabilitiesOf(isolation)
  if (!volumes && (wants.volumes ?? []).length > 0) throw unsupported(isolation, 'volumes', 'mount volumes')
  if (!timers && wants.wakeOnTimer === true) throw unsupported(isolation, 'wakeOnTimer', 'wake for timers')
  if (!waitsAtMemoryLimit && wants.atMemoryLimit === 'pause')
    throw unsupported(isolation, 'atMemoryLimit', 'be paused at the memory limit')
}

function unsupported(isolation: Isolation, field: string, what: string): DormouseError {
  return new DormouseError(
    'isolation_unsupported',
    `A sandbox with isolation "${isolation}" cannot ${what}.`,
    { details: { field, isolation } },
  )
}
