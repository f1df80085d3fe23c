import { describe, expect, test } from 'vitest'
import { originChecker } from './origin-checker.ts'

const judge = originChecker({
  host: '127.0.0.1',
  domain: 'boxes.example.com',
  cors: { origins: ['https://app.example.org'] },
})
const allows = (host: string | undefined, origin?: string) => {
  try {
    judge({ host, origin })
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'permission_denied', status: 403 })
    return false
  }
}

describe('a request', () => {
  test.each([
    'localhost',
    'localhost:7070',
    'LocalHost:7070',
    '127.0.0.1:7070',
    '[::1]:7070',
    '192.168.1.4:7070',
    'boxes.example.com',
    'a.boxes.example.com:443',
  ])('to %s is taken', (host) => expect(allows(host)).toBe(true))

  test.each([
    'evil.example',
    'localhost.evil.example',
    'notboxes.example.com',
    'boxes.example.com.evil.example',
    '127.0.0.1.evil.example',
    '',
    undefined,
  ])('to %s is refused', (host) => expect(allows(host)).toBe(false))

  test.each([
    'http://localhost:6274',
    'http://127.0.0.1',
    'http://[::1]:80',
    'https://boxes.example.com',
    'https://app.example.org',
  ])('from a page of %s is taken', (origin) => expect(allows('localhost', origin)).toBe(true))

  test.each(['http://evil.example', 'http://203.0.113.5', 'null', '', 'http://localhost.evil.example'])(
    'from a page of %s is refused',
    (origin) => expect(allows('localhost', origin)).toBe(false),
  )
})
