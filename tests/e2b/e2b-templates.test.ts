import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cliSuite } from './cli-suite.ts'
import { E2bServer, loadClient } from './e2b-server.ts'
import { killedBuildSuite } from './killed-suite.ts'
import { CallRecorder, publicMethods } from './public-methods.ts'
import { templateSuite } from './template-suite.ts'

/** The first create builds a template, which takes its time on a busy machine. */
const BUILD_TIMEOUT_MS = 600_000

const e2b = new E2bServer()
const recorder = new CallRecorder()
beforeAll(async () => {
  recorder.watch(await loadClient())
  await e2b.start()
}, BUILD_TIMEOUT_MS)
afterAll(() => e2b.end())

describe('templates', () => templateSuite(e2b))
describe('command line', () => cliSuite(e2b))
test('the suites call every public method of templates', async () => {
  await (await loadClient()).Template.aliasExists('base', e2b.options)
  const methods = [...publicMethods()].filter((name) => name.startsWith('TemplateBase.'))
  expect(methods.length).toBeGreaterThan(40)
  expect(methods.filter((name) => !recorder.called.has(name))).toEqual([])
})
describe('after kill -9', () => killedBuildSuite(e2b))
