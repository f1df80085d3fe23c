import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { E2bServer, loadClient } from './e2b-server.ts'
import { interpreterSuite } from './interpreter-suite.ts'
import { killedSuite } from './killed-suite.ts'
import { methodSuite } from './method-suite.ts'
import { protocolSuite } from './protocol-suite.ts'
import { CallRecorder, publicMethods } from './public-methods.ts'
import { sandboxSuite } from './sandbox-suite.ts'

/** The first create builds a template, which takes its time on a busy machine. */
const BUILD_TIMEOUT_MS = 600_000

/** Methods that the suites do not call. Those of templates are called in e2b-templates.test.ts. */
const NOT_CALLED: Record<string, string> = {
  'Sandbox.getMcpUrl': 'called in e2b-templates.test.ts',
  'Sandbox.getMcpToken': 'called in e2b-templates.test.ts',
  'Secret.fill': 'only formats text, for network rules, which are refused here',
  'Secret.iamToken': 'only returns its argument, for `iam`, which needs the cloud of E2B',
}

// One server for all suites: each would build the template again.
const e2b = new E2bServer()
const recorder = new CallRecorder()
beforeAll(async () => {
  recorder.watch(await loadClient())
  await e2b.start()
}, BUILD_TIMEOUT_MS)
afterAll(() => e2b.end())

describe('sandboxes', () => sandboxSuite(e2b))
describe('methods', () => methodSuite(e2b, recorder))
describe('protocols', () => protocolSuite(e2b))
describe('code interpreter', () => interpreterSuite(e2b))
test('the suites call every public method of the client', () => {
  const methods = [...publicMethods()].filter((name) => !name.startsWith('TemplateBase.'))
  expect(methods.length).toBeGreaterThan(70)
  expect(methods.filter((name) => !recorder.called.has(name) && !(name in NOT_CALLED))).toEqual([])
})
describe('after kill -9', () => killedSuite(e2b))
