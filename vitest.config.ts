import { defineConfig } from 'vitest/config'

// Tests run on the TypeScript sources of every package, so a test run never sees a stale build.
// Not `import`: Node would be told of it too, and give CommonJS packages the wrong half of others.
const conditions = ['dormouse-source', 'node']
const resolve = { resolve: { conditions }, ssr: { resolve: { conditions } } }
// Tried again, once: a shared machine may stand still for a second. setup/second-tries.mjs tells of each.
const patience = { testTimeout: 60_000, hookTimeout: 120_000, teardownTimeout: 60_000, retry: 1 }

/** Those that spend much of their time waiting, and do not care how long something took. */
const TOGETHER = [
  'packages/*/src/**/*.test.ts',
  'setup/**/*.test.ts',
  'tests/{cli,docs,examples,mcp,python-sdk,sdk,ssh,surfaces,tidy}/**/*.test.ts',
  'tests/snapshot/{soak,upkeep*}.test.ts',
  'tests/server/fuzz.test.ts',
]

export default defineConfig({
  test: {
    reporters: ['default', './setup/second-tries.mjs'],
    projects: [
      {
        ...resolve,
        test: {
          name: 'together',
          include: TOGETHER,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
          ...patience,
        },
      },
      {
        ...resolve,
        test: {
          name: 'alone',
          include: ['tests/**/*.test.ts'],
          exclude: TOGETHER,
          // They look at clocks, at the whole host, and at who is killed when: one file after another keeps failures readable.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
          ...patience,
        },
      },
    ],
  },
})
