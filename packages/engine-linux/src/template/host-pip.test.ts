import { expect, it } from 'vitest'
import { parsePipConfig, writePipConf } from './host-pip.ts'

it('indexes of the host are passed on, without its passwords', () => {
  const found = parsePipConfig(`:env:.extra-index-url='https://one.example/simple https://two.example/simple'
global.extra-index-url='https://replaced.example/simple'
global.index-url='https://reader:secret@mirror.example/simple'
global.timeout='60'
install.trusted-host='\\nmirror.example\\nother.example:8080'
`)
  expect(found).toEqual({
    indexUrl: 'https://mirror.example/simple',
    extraIndexUrls: ['https://one.example/simple', 'https://two.example/simple'],
    trustedHosts: ['mirror.example', 'other.example:8080'],
  })
  expect(writePipConf(found)).toBe(`[global]
break-system-packages = true
root-user-action = ignore
disable-pip-version-check = true
index-url = https://mirror.example/simple
extra-index-url =
    https://one.example/simple
    https://two.example/simple
trusted-host =
    mirror.example
    other.example:8080
`)
})

it('what means nothing inside stays outside: directories and certificates of the host, and other commands', () => {
  const found = parsePipConfig(`global.cert='/etc/ssl/certs/ours.pem'
global.extra-index-url='file:///opt/simple /opt/more'
global.find-links='/opt/wheels'
download.index-url='https://elsewhere.example/simple'
`)
  expect(writePipConf(found)).not.toMatch(/example|opt|ours/)
})
