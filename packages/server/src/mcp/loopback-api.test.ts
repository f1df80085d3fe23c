import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../api/testing/test-app.ts'
import { LoopbackApi } from './loopback-api.ts'

let http: TestApp
beforeAll(async () => {
  http = await testApp()
})
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

const key = () => http.as('read').authorization.replace('Bearer ', '')

describe('a client of the server that it is in', () => {
  test('reaches one with TLS without its certificate, and is asked for its key there, too', async () => {
    const own = new LoopbackApi()
    // The name leads nowhere: nothing that goes there would come back.
    await own.open(http.app, 'https://sandboxes.example.com:7070')
    expect(await own.connect(key()).health()).toEqual(http.health)
    expect(await own.connect(key()).listSandboxes().all()).toEqual([])
    await expect(own.connect('dm_wrong').listSandboxes().all()).rejects.toMatchObject({
      code: 'unauthorized',
    })
    own.end()
  })

  test('does not wait for a server that is ending', async () => {
    const own = new LoopbackApi()
    await own.open(http.app, 'https://sandboxes.example.com:7070')
    const client = own.connect(key())
    await client.health()
    own.end()
    await expect(client.health()).rejects.toMatchObject({ code: 'cancelled' })
  })
})
