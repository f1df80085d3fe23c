import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { Browser } from './browser.ts'

let server: ServerProcess
let browser: Browser

beforeAll(async () => {
  ;[server, browser] = await Promise.all([ServerProcess.start(), Browser.open()])
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await server?.cleanUp()
})

describe('a page whose server is killed', () => {
  it('says so, and continues with the next server, still signed in', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'elm', idleTimeoutMs: 0 } })
    const fleet = await browser.signedIn(server)
    const notebook = await browser.signedIn(server, '/page/sandboxes/elm')
    const running = server.fetch('/v1/sandboxes/elm/run', {
      json: { code: 'import time\nfor i in range(600):\n    print("beat", i, flush=True); time.sleep(0.2)' },
    })
    running.catch(() => {})
    await notebook.locator('.stdout', { hasText: 'beat 1' }).waitFor()
    const port = Number(new URL(server.url).port)
    await server.kill()
    await fleet.getByText('The server does not answer').waitFor()
    await server.begin([], { port })
    await fleet.getByText('The server does not answer').waitFor({ state: 'detached' })
    await notebook.getByText('The server does not answer').waitFor({ state: 'detached' })
    const seen = await server.ok('/v1/sandboxes/elm/runs')
    expect(seen.items[0].state).toBe('running')
    await notebook.getByRole('button', { name: 'Interrupt' }).click()
    await notebook.locator('.cell', { hasText: 'interrupted' }).waitFor()
    await server.ok('/v1/sandboxes', { json: { name: 'fir' } })
    await fleet.locator('.row', { hasText: 'fir' }).waitFor()
    expect(browser.problems).toEqual([])
  })
})

describe('a fleet of 10,000', () => {
  it('keeps only the rows on the screen, and filters and sorts all of them', async () => {
    const page = await browser.page()
    const info = await server.ok('/v1/sandboxes/fir')
    await page.route('**/v1/sandboxes?*', async (route) => {
      const start = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0)
      const items = Array.from({ length: 1000 }, (_, index) => {
        const number = String(start + index)
          .padStart(16, '2')
          .replaceAll(/[01]/g, '9')
        const state = (start + index) % 3 === 0 ? { state: 'running' } : { state: 'standby', tier: 'stored' }
        return { ...info, ...state, id: `sb-${number}`, name: `worker-${start + index}` }
      })
      const nextCursor = start + 1000 < 10_000 ? String(start + 1000) : undefined
      await route.fulfill({ json: { items, nextCursor } })
    })
    await page.goto(server.url)
    const table = page.getByRole('table', { name: 'Sandboxes' })
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('10001')
    expect(await page.locator('.row').count()).toBeLessThan(80)
    const frames = await page.evaluate(async () => {
      const box = document.querySelector('.virtual') as HTMLElement
      const times: number[] = []
      for (let step = 1; step <= 60; step += 1) {
        box.scrollTop = (box.scrollHeight / 60) * step
        const began = performance.now()
        await new Promise(requestAnimationFrame)
        await new Promise(requestAnimationFrame)
        times.push(performance.now() - began)
      }
      return times.sort((one, other) => one - other)
    })
    console.log(`two frames of scrolling 10,000 rows: median ${frames[30]?.toFixed(1)} ms`)
    expect(await page.locator('.row').count()).toBeLessThan(80)
    await page.getByRole('button', { name: 'running' }).click()
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('3335')
    await page.getByLabel('Search').fill('worker-9999')
    await page.locator('.row', { hasText: 'worker-9999' }).waitFor()
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('2')
    await page.close()
  })
})
