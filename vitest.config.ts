import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { relative } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { DURATIONS } from './setup/test-durations.mjs'
import { CHOSEN_FILES, FROM_INSIDE, IS_IN_MACHINES } from './tests/engine-microvm/files-from-inside.ts'

// Tests run on the TypeScript sources of every package, so a test run never sees a stale build.
// Not `import`: Node would be told of it too, and give CommonJS packages the wrong half of others.
const conditions = ['dormouse-source', 'node']
const resolve = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const settings = {
  globalSetup: ['tests/server/bundle-server.ts'],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  teardownTimeout: 60_000,
  expect: { poll: { timeout: 20_000 } },
}

/**
 * They measure the whole host, or use up what all burrows on it share (some limits of the kernel count per user, and all
 * burrows belong to one), or say when something must have ended.
 */
const ALONE = [
  'tests/engine-linux/contract-resources.test.ts',
  'tests/isolation/{bombs,resources}.test.ts',
  'tests/network/{flood,life}.test.ts',
  'tests/server/{journal-load,watermarks}.test.ts',
  'tests/snapshot/neighbour.test.ts',
]

/** They count objects or bytes of their own process, so no other file may have left any there. */
const MEASURE_THEMSELVES = ['tests/server/memory.test.ts', 'tests/fuzz/*.test.ts']

/** Starts the files that took longest first: a long one that starts last would keep one processor busy alone. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations: Record<string, number> = existsSync(DURATIONS)
      ? JSON.parse(readFileSync(DURATIONS, 'utf8'))
      : {}
    const seconds = ({ moduleId }: TestSpecification) =>
      durations[relative(import.meta.dirname, moduleId)] ?? 0
    return (await super.sort(files)).sort((one, other) => seconds(other) - seconds(one))
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        ...resolve,
        test: {
          name: 'together',
          include: ['packages/*/src/**/*.test.ts', 'setup/**/*.test.ts', 'tests/**/*.test.ts'],
          exclude: [
            ...ALONE,
            ...MEASURE_THEMSELVES,
            ...(IS_IN_MACHINES ? FROM_INSIDE : []),
            '**/node_modules/**',
          ],
          // Loading our sources takes about a second of CPU; a worker does it once for all of its files.
          isolate: false,
          // One more than there are processors: most of them wait for much of their time.
          maxWorkers: availableParallelism() + 1,
          sequence: { groupOrder: 0 },
          ...settings,
        },
      },
      {
        ...resolve,
        test: {
          name: 'measuring',
          include: MEASURE_THEMSELVES,
          maxWorkers: availableParallelism() + 1,
          sequence: { groupOrder: 0 },
          ...settings,
        },
      },
      {
        ...resolve,
        test: {
          name: 'alone',
          include: ALONE,
          exclude: IS_IN_MACHINES ? FROM_INSIDE : [],
          // One worker loads our sources once for all of these files.
          isolate: false,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
          ...settings,
        },
      },
      {
        ...resolve,
        test: {
          name: 'machines',
          include: IS_IN_MACHINES ? FROM_INSIDE : CHOSEN_FILES,
          isolate: false,
          // Emulation leaves no processor idle, and these tests say when something must have ended.
          fileParallelism: false,
          sequence: { groupOrder: 2 },
          ...settings,
          env: {
            DORMOUSE_TEST_ISOLATION: 'microvm',
            DORMOUSE_TEST_CHOSEN: IS_IN_MACHINES ? '' : '1',
          },
          setupFiles: ['tests/engine-microvm/in-machines.ts'],
          testTimeout: 300_000,
          // The first test of a host boots the template.
          hookTimeout: 600_000,
        },
      },
    ],
  },
})
