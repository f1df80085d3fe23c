import { DormouseError } from '@dormouse/contracts'
import type { App } from './route.ts'

/** Invalid UTF-8 would be read as U+FFFD, which may name another file. */
export function requireUtf8Queries(app: App): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const start = request.url.indexOf('?')
    if (start !== -1 && !isUtf8(request.url.slice(start + 1))) {
      throw new DormouseError('invalid_argument', 'query: is not valid percent-encoded UTF-8')
    }
    done()
  })
}

function isUtf8(encoded: string): boolean {
  if (!encoded.includes('%')) return true
  try {
    // The result is used, so that no bundler drops the call: it throws for what is not UTF-8.
    return decodeURIComponent(encoded).length > 0
  } catch {
    return false
  }
}
