import { newSandboxId } from '@dormouse/contracts'
import { beforeAll, describe, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { forkBurrow } from './fork-burrow.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { descriptorsThatSurvive } from './survive-descriptors.ts'
import { filesThatSurvive } from './survive-files.ts'
import { identityThatSurvives } from './survive-identity.ts'
import { prepareContext } from './survive-item.ts'
import { librariesThatSurvive } from './survive-libraries.ts'
import { outsideThatSurvives } from './survive-outside.ts'
import { processesThatSurvive } from './survive-processes.ts'
import { samenessThatSurvives } from './survive-sameness.ts'
import { socketsThatSurvive } from './survive-sockets.ts'
import { threadsThatSurvive } from './survive-threads.ts'

const CONTEXTS = [
  'default',
  'threads',
  'processes',
  'files',
  'sockets',
  'descriptors',
  'identity',
  'sameness',
]

/** All items in one sandbox, through one sleep and one fork. Every item is a test of its own. */
export function describeSurvive(factory: EngineFactory): void {
  describe('what survives', () => {
    const shared = useSharedBurrow(factory, { limits: { cpus: 2, memoryBytes: 2 * 1024 ** 3 } })
    const survivors = [
      ...outsideThatSurvives(),
      ...threadsThatSurvive,
      ...processesThatSurvive,
      ...filesThatSurvive,
      ...socketsThatSurvive,
      ...descriptorsThatSurvive,
      ...identityThatSurvives,
      ...samenessThatSurvives,
      ...librariesThatSurvive,
    ]
    let woken: Burrow

    beforeAll(async () => {
      const { guest } = shared
      for (const context of CONTEXTS) await prepareContext(guest, context)
      for (const survivor of survivors) await survivor.setUp(guest)
      const { snapshot } = await shared.engine.snapshot(shared.burrow, { leave: 'gone' })
      woken = shared.hold(
        await shared.engine.restore(snapshot.id, { sandboxId: shared.burrow.sandboxId, reason: 'resume' }),
      )
    })

    describe('stored standby and resume', () => {
      for (const { title, check } of survivors) test(`${title} survive`, () => check(woken.guest))
    })

    describe('a fork, in the parent and in the child', () => {
      const copies: Burrow[] = []
      beforeAll(async () => {
        const { parent, children } = await forkBurrow(shared.engine, woken, { sandboxIds: [newSandboxId()] })
        for (const burrow of [parent, ...children]) copies.push(shared.hold(burrow))
      })

      for (const { title, check } of survivors) {
        test(`${title} survive`, async () => {
          for (const { guest } of copies) await check(guest)
        })
      }
    })
  })
}
