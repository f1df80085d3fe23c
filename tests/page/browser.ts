import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as Playwright from '../packages/node_modules/playwright-core/index.js'
import type { ServerProcess } from '../server/server-process.ts'

export type Page = Playwright.Page
export type Context = Playwright.BrowserContext

const require = createRequire(new URL('../packages/package.json', import.meta.url))
const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync'],
]
const WAIT_MS = 60_000

/** Debian's Chromium, with a profile of its own. */
export class Browser implements AsyncDisposable {
  readonly #context: Context
  readonly #profile: string
  /** Errors of scripts, and what a content policy refused. */
  readonly problems: string[] = []

  private constructor(context: Context, profile: string) {
    this.#context = context
    this.#profile = profile
  }

  static async open(options: { width?: number; height?: number; dark?: boolean } = {}): Promise<Browser> {
    const { chromium } = require('playwright-core') as typeof Playwright
    const profile = mkdtempSync(join(tmpdir(), 'dormouse-browser-'))
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: '/usr/bin/chromium',
      headless: true,
      args: FLAGS,
      viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
      colorScheme: options.dark === true ? 'dark' : 'light',
      acceptDownloads: true,
    })
    context.setDefaultTimeout(WAIT_MS)
    return new Browser(context, profile)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close()
    rmSync(this.#profile, { recursive: true, force: true })
  }

  get context(): Context {
    return this.#context
  }

  async page(): Promise<Page> {
    const page = await this.#context.newPage()
    page.on('pageerror', (error) => this.problems.push(error.message))
    return page
  }

  /** A page that is signed in by a link, as `dormouse open` does it. */
  async signedIn(server: ServerProcess, path = '/', key?: string): Promise<Page> {
    const page = await this.page()
    const how = key === undefined ? { json: {} } : { json: {}, key }
    const link = (await (await server.fetch('/v1/session/links', how)).json()) as { path: string }
    await page.goto(server.url + link.path)
    await page.waitForSelector('.shell')
    if (path !== '/') await page.goto(server.url + path)
    return page
  }
}

/** What the accessibility checker finds wrong, in words. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  // Injected without a script tag, which the content policy of the page refuses.
  const { source } = require('axe-core') as { source: string }
  await page.evaluate(source)
  // Text that is still fading in has too little contrast for a moment. Without motion it is as it will stay.
  await page.emulateMedia({ reducedMotion: 'reduce' })
  const problems = await page.evaluate(async (): Promise<string[]> => {
    // biome-ignore lint/suspicious/noExplicitAny: the checker was injected a moment ago.
    const { violations } = await (globalThis as any).axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'],
    })
    return violations.map(
      // biome-ignore lint/suspicious/noExplicitAny: as above.
      (one: any) =>
        `${one.id}: ${one.nodes.map(({ html }: { html: string }) => html.slice(0, 160)).join(' | ')}`,
    )
  })
  await page.emulateMedia({ reducedMotion: null })
  return problems
}
