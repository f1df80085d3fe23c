import { newSandboxId } from '@dormouse/contracts'
import { afterAll, beforeAll } from 'vitest'
import type { Burrow, CreateBurrow, Engine } from '../engine.ts'
import type { Guest } from '../guest.ts'
import type { EngineFactory } from './engine-factory.ts'

export interface SharedBurrow {
  readonly engine: Engine
  readonly burrow: Burrow
  readonly guest: Guest
  /** Creates another burrow, which is destroyed after the tests. */
  create(request?: Partial<CreateBurrow>): Promise<Burrow>
  /** Registers a burrow to be destroyed after the tests. */
  hold(burrow: Burrow): Burrow
}

/** Creates one engine and one burrow before the tests of a describe block, and destroys them afterwards. */
export function useSharedBurrow(factory: EngineFactory, request: Partial<CreateBurrow> = {}): SharedBurrow {
  let engine: Engine
  let shared: Burrow
  const burrows: Burrow[] = []
  const create = async (fields: Partial<CreateBurrow> = {}) => {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', ...fields })
    return hold(burrow)
  }
  const hold = (burrow: Burrow) => {
    burrows.push(burrow)
    return burrow
  }
  beforeAll(async () => {
    engine = await factory.open()
    shared = await create(request)
  })
  afterAll(async () => {
    await Promise.allSettled(burrows.map((burrow) => burrow.destroy()))
    await engine?.[Symbol.asyncDispose]()
  })
  return {
    get engine() {
      return engine
    },
    get burrow() {
      return shared
    },
    get guest() {
      return shared.guest
    },
    create,
    hold,
  }
}
