import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { accessibilityProblems, Browser, type Page } from './browser.ts'

let server: ServerProcess
let browser: Browser
let page: Page

beforeAll(async () => {
  ;[server, browser] = await Promise.all([ServerProcess.start(), Browser.open()])
  await server.ok('/v1/sandboxes', { json: { name: 'dale', idleTimeoutMs: 0 } })
  page = await browser.signedIn(server, '/page/sandboxes/dale')
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await server?.cleanUp()
})

const stateOf = async () => (await server.ok('/v1/sandboxes/dale')).state
const runs = (code: string, options: object = {}) =>
  server.ok('/v1/sandboxes/dale/run', { json: { code, ...options } })

describe('the notebook', () => {
  it('shows what an agent runs, while it runs', async () => {
    const code = 'import time\nfor i in range(40):\n    print("tick", i, flush=True); time.sleep(0.1)'
    const running = runs(code)
    await page.locator('.cell.running').getByText('tick 2').waitFor()
    await page.getByRole('button', { name: 'Interrupt' }).click()
    await page.locator('.cell', { hasText: 'interrupted' }).waitFor()
    await running
  })

  it('runs code of its own, with colours, tables, pictures, formulas and progress', async () => {
    await page.locator('.composer .cm-content').click()
    await page.keyboard.insertText(RICH)
    await page.keyboard.press('Shift+Enter')
    const cell = page.locator('.cell').last()
    await cell.locator('.fg-green', { hasText: 'leaf' }).waitFor()
    await cell.frameLocator('iframe').getByText('Berlin').waitFor()
    await cell.locator('img.picture').waitFor()
    await cell.locator('math').waitFor()
    await cell.locator('.json', { hasText: 'nested' }).first().waitFor()
    const text = await cell.locator('.stdout').allTextContents()
    expect(text.join('')).toContain('100%')
    expect(text.join('')).not.toContain(' 50%')
    await cell.locator('.value', { hasText: '42' }).waitFor()
  })

  it('shows tracebacks, and asks what the code asks', async () => {
    await runs('1/0').catch(() => {})
    await page.locator('.traceback', { hasText: 'ZeroDivisionError' }).waitFor()
    await page.locator('.composer .cm-content').click()
    await page.keyboard.insertText('name = input("who? ")\nprint("hello", name)')
    await page.keyboard.press('Shift+Enter')
    await page.getByLabel('who?').fill('mouse')
    await page.getByLabel('who?').press('Enter')
    await page.locator('.stdout', { hasText: 'hello mouse' }).waitFor()
  })

  it('does not wake a sandbox that is only looked at, and says how long a wake took', async () => {
    await server.ok('/v1/sandboxes/dale/standby', { json: { tier: 'stored' } })
    await page.reload()
    await page.locator('.stdout', { hasText: 'hello mouse' }).waitFor()
    for (const part of ['Terminal', 'Files', 'Notebook']) await page.getByRole('link', { name: part }).click()
    expect(await stateOf()).toBe('standby')
    await page.locator('.composer .cm-content').click()
    await page.keyboard.insertText('name')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.value', { hasText: "'mouse'" }).waitFor()
    await page
      .getByRole('status')
      .filter({ hasText: /woke in [\d.]+ m?s/ })
      .waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
  })
})

describe('the variables', () => {
  it('are listed, follow runs, and a frame is sorted, filtered and read as far as it is seen', async () => {
    await runs(VARIABLES)
    await page.getByRole('link', { name: 'Variables' }).click()
    const row = (name: string) =>
      page.locator('.variables tr', { has: page.getByText(name, { exact: true }) })
    await row('total').getByText('41').waitFor()
    await row('frame').getByText('100,000 × 2').waitFor()
    await runs('total += 1')
    await row('total').getByText('42').waitFor()
    await page.getByRole('button', { name: 'frame' }).click()
    const table = page.getByRole('table', { name: 'Rows of frame' })
    await table.getByRole('rowheader', { name: '0', exact: true }).waitFor()
    await table.getByRole('button', { name: /^number/ }).click()
    await table.getByRole('button', { name: /^number/ }).click()
    await table.getByRole('cell', { name: '99999' }).waitFor()
    await table.getByLabel('Filter word').fill('even')
    await page.getByText('50,000 of 100,000 rows').waitFor()
    await table.getByRole('cell', { name: '99998' }).waitFor()
    await table.locator('.virtual').evaluate((box) => box.scrollTo(0, box.scrollHeight))
    await table.getByRole('cell', { name: '0', exact: true }).waitFor()
    // Only what is on the screen exists.
    expect(await table.getByRole('row').count()).toBeLessThan(80)
    expect(await accessibilityProblems(page)).toEqual([])
    await page.getByRole('button', { name: 'pixels' }).click()
    await page.getByRole('img', { name: 'pixels' }).waitFor()
  })

  it('of a sleeping sandbox, and its files, are seen without waking it', async () => {
    await server.ok('/v1/sandboxes/dale/standby', { json: { tier: 'stored' } })
    await page.getByText('As of its last sleep').waitFor()
    await page.locator('.variables tr', { hasText: 'total' }).getByText('42').waitFor()
    await page.reload()
    await page.locator('.variables tr', { hasText: 'total' }).getByText('42').waitFor()
    await page.getByRole('link', { name: 'Files' }).click()
    await page.getByRole('button', { name: 'asleep.txt' }).click()
    await page.locator('.file .cm-content', { hasText: 'written before the sleep' }).waitFor()
    expect(await stateOf()).toBe('standby')
    await page.getByRole('button', { name: 'Wake it to change them' }).click()
    await page.getByRole('button', { name: 'Save' }).waitFor()
    expect(await stateOf()).toBe('running')
  })
})

describe('the terminal', () => {
  it('is a shell in the sandbox', async () => {
    await page.getByRole('link', { name: 'Terminal' }).click()
    await page.locator('.xterm-screen').click()
    await page.keyboard.type('echo $((6*7))-from-shell\n')
    await page.locator('.xterm', { hasText: '42-from-shell' }).waitFor()
  })
})

describe('the files', () => {
  it('are uploaded, changed, watched and downloaded', async () => {
    await page.getByRole('link', { name: 'Files' }).click()
    const note = { name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('first line') }
    await page.locator('input[type=file]').setInputFiles(note)
    await page.getByRole('button', { name: 'note.txt' }).click()
    await page.locator('.file .cm-content', { hasText: 'first line' }).click()
    await page.keyboard.press('End')
    await page.keyboard.insertText(', and more')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved note.txt').waitFor()
    expect(await (await server.fetch('/v1/sandboxes/dale/files?path=note.txt')).text()).toBe(
      'first line, and more',
    )
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('note.txt')
    await runs('open("table.csv", "w").write("city,people\\nBerlin,3.7\\n")')
    await page.locator('.tree li.changed', { hasText: 'table.csv' }).waitFor()
    await page.getByRole('button', { name: 'table.csv' }).click()
    await page.getByRole('cell', { name: 'Berlin' }).waitFor()
    await dropFile('dropped.txt')
    await page.getByRole('button', { name: 'dropped.txt' }).waitFor()
    expect(await accessibilityProblems(page)).toEqual([])
    expect(browser.problems).toEqual([])
  })
})

/** As a file manager would: with a data transfer of its own. */
async function dropFile(name: string): Promise<void> {
  const transfer = await page.evaluateHandle((fileName) => {
    const data = new DataTransfer()
    data.items.add(new File(['dropped'], fileName, { type: 'text/plain' }))
    return data
  }, name)
  await page.dispatchEvent('.drop', 'drop', { dataTransfer: transfer })
}

const VARIABLES = `
import numpy as np, pandas as pd
total = 41
frame = pd.DataFrame({"number": np.arange(100_000), "word": ["even", "odd"] * 50_000})
pixels = np.zeros((64, 64, 3), "uint8")
open("asleep.txt", "w").write("written before the sleep")
`

const RICH = `
import sys, time
from IPython.display import HTML, SVG, Latex, JSON, display
print("\\x1b[32mleaf\\x1b[0m")
for percent in (0, 50, 100):
    print(f"\\r {percent}%", end="", flush=True)
display(HTML("<table><tr><td>Berlin</td></tr></table>"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><circle cx="9" cy="9" r="8"/></svg>'))
display(Latex(r"$\\\\frac{a}{b}$"))
display(JSON({"nested": {"list": [1, 2, 3]}}))
42
`
