import { expect, it } from 'vitest'
import { readSettings, selectIndexes, writePipConf } from './host-pip.ts'

const indexes = (text: string) => selectIndexes(readSettings(text))

it('indexes of the host are passed on, without its passwords', () => {
  const found = indexes(`
[global]
index-url = https://reader:secret@mirror.example/simple
timeout = 60
extra_index_url =
    https://one.example/simple
    # not this one
    https://two.example/simple
[install]
trusted-host: mirror.example
`)
  expect(found).toEqual({
    indexUrl: 'https://mirror.example/simple',
    extraIndexUrls: ['https://one.example/simple', 'https://two.example/simple'],
    trustedHosts: ['mirror.example'],
  })
  expect(indexes(writePipConf(found))).toEqual(found)
})

it('what means nothing inside stays outside: directories and certificates of the host, and other sections', () => {
  const text = `
[global]
cert = /etc/ssl/certs/ours.pem
extra-index-url = file:///opt/simple /opt/more
find-links = /opt/wheels
[download]
index-url = https://elsewhere.example/simple
`
  expect(writePipConf(indexes(text))).toBe('[global]\nbreak-system-packages = true\n')
})
