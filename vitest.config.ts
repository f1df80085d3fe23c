import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Tests run on the TypeScript sources of every package, so a test run never sees a stale build.
// Not `import`: Node would be told of it too, and give CommonJS packages the wrong half of others.
const conditions = ['dormouse-source', 'node']
const resolve = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const patience = {
  testTimeout: 120_000,
  hookTimeout: 120_000,
  teardownTimeout: 60_000,
  expect: { poll: { timeout: 20_000 } },
  // Tried again, once, when a shared machine that stood still has had time to move. setup/second-tries.mjs tells of each.
  retry: { count: 1, delay: 3_000 },
}

/**
 * They look at the whole host, or use up what all burrows on it share (a limit of the kernel counts for a user, and that is the same one
 * for all), or say when something must have ended.
 */
const ALONE = [
  'tests/engine-linux/contract-resources.test.ts',
  'tests/isolation/{bombs,resources}.test.ts',
  'tests/network/{flood,life}.test.ts',
  'tests/server/{journal-load,watermarks}.test.ts',
  'tests/snapshot/neighbour.test.ts',
]

/** Begun in this order, before all others: a long one that begins last keeps everybody waiting. */
const LONG = [
  'tests/python-sdk/python-sdk.test.ts',
  'tests/server/fuzz.test.ts',
  'tests/python-sdk/oldest-python.test.ts',
  'tests/snapshot/upkeep.test.ts',
  'tests/engine-linux/contract-sleep.test.ts',
  'tests/server/killed-midway.test.ts',
  'tests/snapshot/upkeep-faults.test.ts',
  'tests/engine-linux/contract-runs.test.ts',
  'tests/docs/docs.test.ts',
  'tests/snapshot/soak.test.ts',
  'tests/fault/ends-unseen.test.ts',
  'tests/server/power-cuts.test.ts',
  'tests/server/processes.test.ts',
  'tests/server/killed.test.ts',
]

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const index = LONG.findIndex((path) => moduleId.endsWith(path))
      return index < 0 ? LONG.length : index
    }
    return (await super.sort(files)).sort((one, other) => place(one) - place(other))
  }
}

export default defineConfig({
  test: {
    reporters: ['default', './setup/second-tries.mjs'],
    // Not ignored: setup/second-tries.mjs tells those that a failed try left behind from all others, and fails the run for these.
    dangerouslyIgnoreUnhandledErrors: true,
    sequence: { sequencer: LongFirst },
    projects: [
      {
        ...resolve,
        test: {
          name: 'together',
          include: ['packages/*/src/**/*.test.ts', 'setup/**/*.test.ts', 'tests/**/*.test.ts'],
          exclude: ALONE,
          // One more than there are processors: most of them wait for much of their time.
          maxWorkers: availableParallelism() + 1,
          sequence: { groupOrder: 0 },
          ...patience,
        },
      },
      {
        ...resolve,
        test: {
          name: 'alone',
          include: ALONE,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
          ...patience,
        },
      },
    ],
  },
})
