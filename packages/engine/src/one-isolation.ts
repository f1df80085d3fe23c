import { DormouseError, type Isolation } from '@dormouse/contracts'
import type { CreateBurrow, Engine } from './engine.ts'
import type { EngineCapabilities } from './engine-capabilities.ts'

/** For engines with one isolation: `Engine.capabilitiesOf`. */
export function capabilitiesIn(
  { capabilities, isolations }: Pick<Engine, 'capabilities' | 'isolations'>,
  isolation: Isolation,
): EngineCapabilities {
  if (isolations.includes(isolation)) return capabilities
  throw new DormouseError(
    'isolation_unavailable',
    `This server has no sandboxes with isolation "${isolation}".`,
  )
}

/** The request without its isolation, which must be the engine's. */
export function ofIsolation(
  engine: Pick<Engine, 'capabilities' | 'isolations'>,
  { isolation, ...request }: CreateBurrow,
): CreateBurrow {
  if (isolation !== undefined) capabilitiesIn(engine, isolation)
  return request
}
