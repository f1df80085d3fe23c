import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { testDataDir } from '../test-data-dir.ts'

/** Attacks and traffic from inside a sandbox. */
export const FROM_INSIDE = ['tests/isolation/*.test.ts', 'tests/network/*.test.ts']

/** The option to run all of them in virtual machines, and only there. See README.md. */
export const IS_IN_MACHINES = process.env['DORMOUSE_TEST_ISOLATION'] === 'microvm'

/** Otherwise machines run some tests of these, where set-up has installed what machines need. */
export const CHOSEN_FILES = existsSync(join(testDataDir, 'microvm', 'kernel'))
  ? ['tests/isolation/{files,network,processes,volumes}.test.ts', 'tests/network/{break-out,life}.test.ts']
  : []
