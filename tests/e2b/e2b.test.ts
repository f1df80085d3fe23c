import { afterAll, beforeAll, describe } from 'vitest'
import { E2bServer } from './e2b-server.ts'
import { interpreterSuite } from './interpreter-suite.ts'
import { methodSuite } from './method-suite.ts'
import { protocolSuite } from './protocol-suite.ts'
import { sandboxSuite } from './sandbox-suite.ts'

/** The first create builds a template, which takes its time on a busy machine. */
const BUILD_TIMEOUT_MS = 600_000

// One server for all suites: each would build the template again.
const e2b = new E2bServer()
beforeAll(() => e2b.start(), BUILD_TIMEOUT_MS)
afterAll(() => e2b.end())

describe('sandboxes', () => sandboxSuite(e2b))
describe('methods', () => methodSuite(e2b))
describe('protocols', () => protocolSuite(e2b))
describe('code interpreter', () => interpreterSuite(e2b))
