import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { accessibilityProblems, Browser, type Page } from './browser.ts'

let server: ServerProcess
let browser: Browser

beforeAll(async () => {
  ;[server, browser] = await Promise.all([ServerProcess.start(), Browser.open()])
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await server?.cleanUp()
})

const row = (page: Page, name: string) => page.locator('.row', { hasText: name })

describe('signing in to the page', () => {
  it('takes an API key and keeps it out of reach of scripts', async () => {
    const page = await browser.page()
    await page.goto(server.url)
    await page.getByLabel('API key').fill('dm_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByLabel('API key').fill(server.key)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.shell')
    const [cookie] = await browser.context.cookies()
    expect(cookie).toMatchObject({ name: 'dormouse-session', httpOnly: true, sameSite: 'Strict' })
    expect(cookie?.value).not.toContain(server.key)
    expect(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage }))).not.toContain(
      'dm_',
    )
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    expect((await browser.context.cookies()).length).toBe(0)
    await page.close()
  })

  it('works once with a link', async () => {
    const { path } = await server.ok('/v1/session/links', { json: {} })
    const page = await browser.page()
    await page.goto(server.url + path)
    await page.waitForSelector('.shell')
    expect(page.url()).toBe(`${server.url}/`)
    await browser.context.clearCookies()
    await page.goto('about:blank')
    await page.goto(server.url + path)
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('used before')
    await page.close()
  })
})

describe('the first visit', () => {
  it('makes a sandbox, puts it to sleep and wakes it, in one click', async () => {
    const page = await browser.signedIn(server)
    await page.getByRole('button', { name: 'Show me' }).click()
    await page.getByText('len(nuts) is 1000000').waitFor()
    expect(await page.locator('.show li.done').count()).toBe(4)
    expect(await accessibilityProblems(page)).toEqual([])
    await page.close()
    await server.clear()
  })
})

describe('the fleet', () => {
  it('shows every change of a sandbox in all windows, without being reloaded', async () => {
    const [one, other] = [await browser.signedIn(server), await browser.signedIn(server)]
    await Promise.all([one, other].map((page) => page.getByRole('button', { name: 'Show me' }).waitFor()))
    await Promise.all([one.goto(server.url), server.ok('/v1/sandboxes', { json: { name: 'amber' } })])
    await other.reload()
    for (const page of [one, other]) await row(page, 'amber').getByText('running').waitFor()
    await server.ok('/v1/sandboxes/amber/standby', { json: { tier: 'frozen' } })
    for (const page of [one, other]) await row(page, 'amber').getByText('frozen').waitFor()
    await row(one, 'amber').getByRole('checkbox').check()
    await one.getByRole('button', { name: 'Wake' }).click()
    for (const page of [one, other]) await row(page, 'amber').getByText('running').waitFor()
    await row(one, 'amber').getByRole('checkbox').check()
    await one.getByRole('button', { name: 'Delete' }).click()
    await one.locator('dialog[open]').getByRole('button', { name: 'Delete' }).click()
    for (const page of [one, other]) await row(page, 'amber').waitFor({ state: 'detached' })
    expect((await server.ok('/v1/sandboxes')).items).toEqual([])
    await Promise.all([one.close(), other.close()])
  })

  it('creates a sandbox with the isolation that was chosen', async () => {
    const page = await browser.signedIn(server)
    await page.getByRole('button', { name: 'New sandbox' }).click()
    const dialog = page.locator('dialog[open]')
    await dialog.getByLabel('Name').fill('shared')
    await dialog.getByLabel('Isolation').selectOption('process')
    expect(await accessibilityProblems(page)).toEqual([])
    const asked = page.waitForRequest(
      (request) => request.method() === 'POST' && /sandboxes$/.test(request.url()),
    )
    await dialog.getByRole('button', { name: 'Create' }).click()
    expect((await asked).postDataJSON()).toEqual({ template: 'python', name: 'shared', isolation: 'process' })
    const made = async () =>
      (await server.ok('/v1/sandboxes')).items.map(({ name }: { name: string }) => name)
    await expect.poll(made).toEqual(['shared'])
    await page.close()
    await server.clear()
  })

  it('is used with the keyboard alone', async () => {
    for (const name of ['birch', 'cedar']) await server.ok('/v1/sandboxes', { json: { name } })
    const page = await browser.signedIn(server)
    await row(page, 'birch').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('birch')
    await row(page, 'cedar').waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
    await page.keyboard.press('j')
    await page.keyboard.press('s')
    await row(page, 'birch')
      .getByText(/frozen|stored/)
      .waitFor()
    await page.keyboard.press('w')
    await row(page, 'birch').getByText('running').waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL('**/sandboxes/sb-*')
    await page.getByRole('heading', { name: 'birch' }).waitFor()
    await page.goBack()
    await row(page, 'cedar').waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    await page.close()
    await server.clear()
  })
})

describe('the page', () => {
  it('loads at most 250 KB before the editor and the terminal are needed', async () => {
    const fresh = await browser.signedIn(server)
    await fresh.reload()
    await fresh.waitForSelector('.shell')
    const files = await fresh.evaluate(() =>
      [
        ...performance.getEntriesByType('navigation'),
        ...performance.getEntriesByType('resource').filter(({ name }) => /\.(js|css|svg)$/.test(name)),
      ].map((entry) => {
        const { name, encodedBodySize } = entry as PerformanceResourceTiming
        return { name: name.replace(location.origin, ''), encodedBodySize }
      }),
    )
    expect(files.filter(({ name }) => name.endsWith('.js')).length).toBeGreaterThan(0)
    expect(files.map(({ name }) => name).join()).not.toMatch(/open-(editor|terminal)/)
    expect(files.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)).toBeLessThan(250_000)
    await fresh.close()
  })
})
