import { defineConfig } from 'vitest/config'

// Tests run on the TypeScript sources of every package, so a test run never sees a stale build.
// Not `import`: Node would be told of it too, and give CommonJS packages the wrong half of others.
const conditions = ['dormouse-source', 'node']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/src/**/*.test.ts', 'tests/**/*.test.ts', 'setup/**/*.test.ts'],
    // The suites share two cores and real cgroups: files one after another keep timings and failures readable.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
  },
})
