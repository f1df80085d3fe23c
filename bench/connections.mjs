// Measures wakes of sandboxes with open connections, against the same sandbox without any. The connections are streams
// through a preview; connections to the outside move in the same way.
import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { ms, report, summarize, table } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions, timed } from './workbench.mjs'

const options = readOptions()
const COUNTS = [0, 1, 10, 100]
const ROUNDS = options.quick ? 3 : 10
const PAUSE_MS = 300
const PORT = 8000
/** Answers each request with the beginning of a stream. `/tick` sends something to all of them. */
const PROGRAM = `
import asyncio
streams = []
async def serve(reader, writer):
    path = (await reader.readline()).split()[1]
    while (await reader.readline()).strip(): pass
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\nconnection: close\\r\\n\\r\\ndata: begun\\n\\n")
    if path.endswith(b"tick"):
        for each in streams: each.write(b"data: tick\\n\\n")
        writer.close()
    else:
        streams.append(writer)
async def main():
    await (await asyncio.start_server(serve, "127.0.0.1", ${PORT}, backlog=512)).serve_forever()
asyncio.run(main())
`

await atServer(options, async (context) => {
  const sandboxes = []
  for (const count of COUNTS) sandboxes.push(await prepare(context, count))
  const result = await measure(context, sandboxes)
  await report({ name: 'connections', options, result, text: describe(result) })
})

/** A sandbox with so many streams. */
async function prepare({ client, server }, count) {
  const { id } = await client.create()
  await client.run(id, `import subprocess; subprocess.Popen(["python3", "-c", ${JSON.stringify(PROGRAM)}])`)
  const streams = []
  for (let index = 0; index < count; index++) streams.push(await openStream(server, id, 'stream'))
  return { id, count, streams }
}

/** Resolves when the stream has begun. */
async function openStream({ url, key }, id, path) {
  const headers = { authorization: `Bearer ${key}` }
  for (;;) {
    const sent = request(`${url}/v1/sandboxes/${id}/ports/${PORT}/${path}`, { headers, agent: false })
    sent.end()
    const [response] = await once(sent, 'response')
    if (response.statusCode === 200) {
      const stream = { text: '' }
      response.on('data', (data) => {
        stream.text += data
      })
      response.on('error', () => {})
      while (!stream.text.includes('begun')) await sleep(5)
      return stream
    }
    response.resume()
    await sleep(100)
  }
}

/** In turns, so that all meet the same noise. */
async function measure({ client, server }, sandboxes) {
  const samples = Object.fromEntries(COUNTS.map((count) => [count, { frozen: [], stored: [] }]))
  for (let round = 0; round < ROUNDS + 1; round++) {
    for (const tier of ['frozen', 'stored']) {
      for (const { id, count } of sandboxes) {
        await client.standby(id, tier)
        await sleep(PAUSE_MS)
        const { ms: took } = await timed(() => client.call('POST', `/v1/sandboxes/${id}/resume`, {}))
        // The first round only warms up.
        if (round > 0) samples[count][tier].push(took)
      }
    }
  }
  for (const { id, count, streams } of sandboxes) {
    await openStream(server, id, 'tick')
    await sleep(1_000)
    const alive = streams.filter(({ text }) => text.includes('tick')).length
    if (alive !== count) throw new Error(`${alive} of ${count} streams have outlived the sleeps`)
  }
  const summaries = ({ frozen, stored }) => ({ frozen: summarize(frozen), stored: summarize(stored) })
  return Object.fromEntries(Object.entries(samples).map(([count, tiers]) => [count, summaries(tiers)]))
}

function describe(result) {
  const rows = Object.entries(result).map(([count, { frozen, stored }]) => [
    count,
    frozen.times,
    ms(frozen.p50),
    ms(frozen.p99),
    ms(stored.p50),
    ms(stored.p99),
  ])
  const head = ['open connections', 'times', 'frozen: p50 ms', 'p99 ms', 'stored: p50 ms', 'p99 ms']
  return `${table(head, rows)}\n\nAll connections were still open after the last wake.`
}
