import type { ChildProcess } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
let outside: ChildProcess
beforeAll(async () => {
  world = await World.make()
  outside = await world.startOutside('echo.mjs')
})
afterAll(() => world?.[Symbol.asyncDispose]())

/** A connection to the echo server, and what a program does with it. */
const CONNECT = `
import hashlib, os
echo = socket.create_connection(("web.example", 7007)); echo.settimeout(20)
echo6 = socket.create_connection(("2a00:22:33::44", 7007)); echo6.settimeout(20)
def say(text, to=None):
    to = to or echo
    to.sendall(text.encode()); got = b""
    while len(got) < len(text):
        more = to.recv(65536)
        if not more: return got.decode() + " END"
        got += more
    return got.decode()
def listen(to=None):
    try: return (to or echo).recv(100).decode() or "ended"
    except OSError as error: return type(error).__name__
`

const standby = (id: string, tier: string) =>
  world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
const connected = async () => {
  const id = await world.create()
  await world.server.run(id, CONNECT)
  expect(await world.inside(id, 'say("first")')).toBe('first')
  return id
}

describe('an idle connection', () => {
  test.each(['frozen', 'stored'])('%s: continues after ten sleeps', async (tier) => {
    const id = await connected()
    for (let round = 0; round < 10; round += 1) {
      await standby(id, tier)
      expect(await world.inside(id, `[say("round ${round}"), say("six ${round}", echo6)]`)).toEqual([
        `round ${round}`,
        `six ${round}`,
      ])
    }
  })
})
