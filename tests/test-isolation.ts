import type { Isolation } from '@dormouse/contracts'

/** What the sandboxes of tests/isolation and tests/network have: `microvm` attacks from inside of machines. */
export const TEST_ISOLATION: Isolation =
  process.env['DORMOUSE_TEST_ISOLATION'] === 'microvm' ? 'microvm' : 'process'
