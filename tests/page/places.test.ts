import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { accessibilityProblems, Browser, type Page } from './browser.ts'

let server: ServerProcess
let browser: Browser
let page: Page

beforeAll(async () => {
  ;[server, browser] = await Promise.all([ServerProcess.start(), Browser.open()])
  await server.ok('/v1/sandboxes', { json: { name: 'glen', idleTimeoutMs: 0 } })
  page = await browser.signedIn(server, '/page/sandboxes/glen')
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await server?.cleanUp()
})

const part = (name: string) => page.getByRole('link', { name, exact: true }).click()
const confirm = (action: string) => page.locator('dialog[open]').getByRole('button', { name: action }).click()

describe('the parts of a sandbox', () => {
  it('list processes, end one, and show a port in a frame', async () => {
    await server.ok('/v1/sandboxes/glen/processes', {
      json: { args: ['python3', '-m', 'http.server', '8000'] },
    })
    await server.ok('/v1/sandboxes/glen/ports/8000/wait', { json: {} })
    await part('Ports')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.frameLocator('.preview iframe').getByText('Directory listing').waitFor()
    const framed = page.frames().find((frame) => frame.url().includes('.localhost'))
    expect(new URL(framed?.url() ?? '').host).toMatch(/^8000-sb-[a-z0-9]+\.localhost/)
    await page.getByRole('button', { name: 'Make public' }).click()
    await page.getByRole('cell', { name: 'public', exact: true }).waitFor()
    await part('Processes')
    await page
      .getByRole('row', { name: /http\.server/ })
      .getByRole('button', { name: 'Kill' })
      .click()
    await page
      .getByRole('row', { name: /http\.server/ })
      .getByText('exited')
      .waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
  })

  it('show the timeline, roll back to a snapshot and branch from it', async () => {
    await server.run('glen', 'x = 1')
    await page.getByRole('button', { name: 'Snapshot' }).click()
    await page.getByText(/Saved glen as/).waitFor()
    await server.run('glen', 'x = 2')
    await part('Timeline')
    await page.getByRole('button', { name: 'Roll back' }).first().click()
    await confirm('Roll back')
    await page.getByText(/Rolled glen back/).waitFor()
    expect(await server.run('glen', 'print(x)')).toBe('1\n')
    expect(await accessibilityProblems(page)).toEqual([])
    await page.getByRole('button', { name: 'Branch' }).first().click()
    await page.waitForURL(/sandboxes\/sb-/)
    await page.getByRole('heading', { name: /^sb-/ }).waitFor()
    await part('Family')
    await page.locator('.node', { hasText: 'glen' }).click()
    await page.locator('.node.self').click()
    await page.getByRole('table', { name: 'Comparison' }).waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
  })

  it('change the policy, and allow what the network refused with one click', async () => {
    await page.goto(`${server.url}/page/sandboxes/glen/settings`)
    await page.getByLabel('Name').fill('dell')
    await page.getByRole('button', { name: 'Save policy' }).click()
    await page.getByRole('heading', { name: 'dell' }).waitFor()
    await page.getByLabel('Saved while it runs').fill('600')
    await page.getByRole('button', { name: 'Save checkpoints' }).click()
    await expect.poll(async () => (await server.ok('/v1/sandboxes/dell')).checkpointEveryMs).toBe(600_000)
    await page.getByText('No checkpoint yet.').waitFor()
    await page.getByLabel('May reach').selectOption('none')
    await page.getByRole('button', { name: 'Save network' }).click()
    await page.getByText('Network: saved').waitFor()
    await server.ok('/v1/sandboxes/dell/run', {
      json: {
        // A name, which the gate refuses to look up: nothing leaves this machine.
        code: 'import socket\ntry: socket.create_connection(("example.com", 443), 2)\nexcept OSError: pass',
      },
    })
    await page.reload()
    await page.getByRole('button', { name: 'Allow', exact: true }).first().click()
    await expect.poll(async () => (await server.ok('/v1/sandboxes/dell')).network.mode).toBe('allow')
    // A note that fades has little contrast for a moment.
    await page.getByText('Allow example.com: saved').waitFor({ state: 'hidden' })
    expect(await accessibilityProblems(page)).toEqual([])
  })
})

describe('the other pages', () => {
  it('make and delete a volume and a key', async () => {
    await page.goto(`${server.url}/page/volumes`)
    await page.getByLabel('Name').fill('attic')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('cell', { name: 'attic' }).waitFor()
    await page.getByRole('cell', { name: /^(hard|measured)$/ }).waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    await page.getByRole('button', { name: 'Delete' }).click()
    await confirm('Delete')
    await page.getByText('There is no volume.').waitFor()
    await part('Keys')
    await page.getByLabel('Name').fill('visitor')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByText('only time that the key is shown').waitFor()
    await page
      .getByRole('row', { name: /visitor/ })
      .getByRole('button', { name: 'Revoke' })
      .click()
    await confirm('Revoke')
    await page
      .getByRole('row', { name: /visitor/ })
      .getByText('revoked')
      .waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
  })

  it('show usage as charts, templates and the server, also in the dark', async () => {
    await page.emulateMedia({ colorScheme: 'dark' })
    await part('Usage')
    await page.locator('canvas').first().waitFor()
    await page.getByRole('table', { name: 'Usage per sandbox' }).waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    await part('Templates')
    await page.getByRole('link', { name: 'python' }).click()
    await page.getByRole('log').waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    await part('Server')
    await page.getByRole('table', { name: 'Checks of the host' }).waitFor()
    await page.getByRole('log', { name: 'Log of the server' }).waitFor()
    await page
      .getByRole('cell', { name: /dormouse_sandboxes/ })
      .first()
      .waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    await part('Fleet')
    await page.locator('.row', { hasText: 'dell' }).waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    expect(browser.problems).toEqual([])
  })
})
