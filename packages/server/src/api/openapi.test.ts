import { readFileSync } from 'node:fs'
import { ERRORS } from '@dormouse/contracts'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createApp } from './app.ts'
import { type TestApp, testApp } from './testing/test-app.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked at as one.
type Json = any

let http: TestApp
let document: Json
beforeAll(async () => {
  http = await testApp()
  document = (await http.send('GET', '/openapi.json')).json
})
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

const operations = (): [string, Json][] =>
  Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]): [string, Json] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  )

describe('the OpenAPI document', () => {
  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator()
    expect(await validator.validate(structuredClone(document))).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
    expect((await new Validator().validate({ ...document, paths: 7 })).valid).toBe(false)
  })

  test('has every route of the server', () => {
    const routes = http.app
      .printRoutes({ commonPrefix: false, includeHooks: false })
      .split('\n')
      .flatMap((line) =>
        [...line.matchAll(/\(([A-Z, ]+)\)/g)].flatMap(([, methods = '']) => methods.split(', ')),
      )
      .filter((method) => method !== 'HEAD')
    expect(routes.length).toBeGreaterThan(35)
    expect(operations()).toHaveLength(routes.length)
  })

  test('every operation has an id, a summary, an explained tag, answers, and the scope that may call it', () => {
    const tags = document.tags.map(({ name }: { name: string }) => name)
    const ids = new Set<string>()
    for (const [name, operation] of operations()) {
      expect(operation.summary, name).toBeTruthy()
      expect(tags, name).toContain(operation.tags[0])
      expect(ids, name).not.toContain(operation.operationId)
      ids.add(operation.operationId)
      expect(['open', 'read', 'run', 'admin'], name).toContain(operation['x-scope'])
      expect(operation.security, name).toEqual(operation['x-scope'] === 'open' ? [] : [{ key: [] }])
      const statuses = Object.keys(operation.responses).map(Number)
      expect(
        statuses.some((status) => status < 300 || status === 101),
        name,
      ).toBe(true)
      expect(statuses, name).toContain(500)
      if (operation['x-scope'] !== 'open')
        expect(statuses, name).toEqual(expect.arrayContaining([401, 403, 429]))
      if (operation.requestBody?.content['application/json']) {
        expect(statuses, name).toEqual(expect.arrayContaining([400, 413, 415]))
      }
    }
  })

  test('the schemas of bodies have examples', () => {
    for (const [name, { requestBody }] of operations()) {
      const schema = requestBody?.content['application/json']?.schema
      if (schema?.$ref === undefined) continue
      const resolved = document.components.schemas[schema.$ref.split('/').at(-1)]
      expect(resolved.examples, name).toBeDefined()
    }
  })

  test('says of numbers, switches and objects in a query what they are', () => {
    const parameter = (path: string, wanted: string) =>
      document.paths[path].get.parameters.find(({ name }: { name: string }) => name === wanted)
    expect(parameter('/v1/sandboxes', 'limit').schema).toMatchObject({
      type: 'integer',
      minimum: 1,
      maximum: 1000,
    })
    expect(parameter('/v1/sandboxes', 'metadata')).toMatchObject({ style: 'deepObject', explode: true })
    expect(parameter('/v1/sandboxes/{id}/runs/{runId}/events', 'follow').schema.type).toBe('boolean')
    expect(document.paths['/v1/sandboxes/{id}/fork'].post.requestBody.required).toBe(false)
    expect(document.paths['/v1/run'].post.requestBody.required).toBe(true)
  })
})

test('a route without a scope keeps the server from starting', async () => {
  const app = await createApp(http.services, { logger: false })
  await app.close()
  const { fastify } = await import('fastify')
  const { requireKeys } = await import('./authentication.ts')
  const bare = fastify()
  requireKeys(bare as never, http.access)
  expect(() => bare.get('/secret', () => 'x')).toThrow(/does not say who may call it/)
})

test('docs/errors.md explains every code of the registry, with its status and hint, and no other', () => {
  const text = readFileSync(new URL('../../../../docs/errors.md', import.meta.url), 'utf8')
  const sections = text.split(/^## /m).slice(1)
  expect(sections.map((section) => section.split('\n', 1)[0])).toEqual(Object.keys(ERRORS))
  for (const [code, { status, retry, hint }] of Object.entries(ERRORS)) {
    const section = (sections.find((one) => one.startsWith(`${code}\n`)) ?? '').replace(/\s+/g, ' ')
    expect(section, code).toContain(
      `HTTP ${status}, ${retry ? 'retrying may help' : 'do not retry unchanged'}`,
    )
    expect(section, code).toContain(hint)
  }
})
