import { defineConfig } from 'vitest/config'

const conditions = ['dormouse-source', 'node']

// For tests that need a network of their own; `namespaced.test.ts` starts them in one. In threads, because the
// descriptors belong to this process.
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/egress/src/testing/namespaced/*.namespaced.ts'],
    pool: 'threads',
    fileParallelism: false,
    testTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
  },
})
