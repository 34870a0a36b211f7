'use strict';
// Photos go to this server's /v1/predict, one request each; their names stay in the browser.

const AT_ONCE = 3;            // requests
const FEW = 6;                // faces whose distributions are all drawn on the photo
const YEARS = 100;            // width of a distribution
const LIVE_EVERY = 250;       // milliseconds between two frames of the camera, at least
const RECORD_COLUMNS = ['schema', 'source', 'status', 'face', 'age', 'std', 'low', 'high', 'coverage', 'box_x', 'box_y', 'box_w', 'box_h',
  'score', 'error', 'interval', 'time', 'track', 'eyes', 'sharpness', 'shift'];
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

const photos = [];            // {name, blob, figure, records}
const waiting = [];
let running = 0;
let token = '';
let stream = null;

class Refused extends Error {
  constructor(status, answer, wait) {
    super([answer.reason, answer.hint].filter(Boolean).join('; '));
    this.status = status;
    this.wait = wait;
  }
}

async function predict(blob, largest) {
  const headers = {'Content-Type': blob.type || 'application/octet-stream'};
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = {method: 'POST', body: blob, headers, credentials: 'omit', cache: 'no-store'};
  const response = await fetch(`v1/predict?distribution=true&largest=${largest}`, options);
  const answer = await response.json().catch(() => ({reason: `the server answered ${response.status}`}));
  if (!response.ok) throw new Refused(response.status, answer, Number(response.headers.get('Retry-After')) || 0);
  $('model').textContent = `Model ${answer.model.name}, SHA-256 ${answer.model.sha256}`;
  return answer.records;
}

const pause = (seconds) => new Promise((done) => { setTimeout(done, 1000 * seconds); });

async function predictPatiently(blob, largest) {
  for (;;) {
    try {
      return await predict(blob, largest);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) await askForToken();
      else if (error instanceof Refused && error.wait) await pause(error.wait);
      else throw error;
    }
  }
}

let asking = null;
function askForToken() {
  token = '';
  $('token-form').hidden = false;
  $('token').focus();
  asking ??= new Promise((done) => {
    $('token-form').addEventListener('submit', (event) => {
      event.preventDefault();
      token = $('token').value;
      $('token').value = '';
      $('token-form').hidden = true;
      asking = null;
      done();
    }, {once: true});
  });
  return asking;
}

// Photos

function addFiles(files) {
  for (const file of files) addPhoto(file, file.name || 'pasted photo');
}

function addPhoto(blob, name, records = null) {
  const photo = {name, blob, records, largest: $('largest').checked, figure: document.createElement('figure')};
  photo.figure.append(frameOf(photo), make('figcaption', {textContent: `${name}: …`}));
  $('photos').append(photo.figure);
  photos.push(photo);
  if (records) show(photo);
  else waiting.push(photo);
  work();
}

function frameOf(photo) {
  const frame = make('div', {className: 'frame'});
  const image = make('img', {alt: photo.name});
  image.addEventListener('load', () => URL.revokeObjectURL(image.src));
  image.addEventListener('error', () => frame.remove());  // such as HEIC: it is not shown, but it has records
  image.src = URL.createObjectURL(photo.blob);
  frame.append(image, make('div', {className: 'faces'}));
  return frame;
}

async function work() {
  while (running < AT_ONCE && waiting.length) {
    const photo = waiting.shift();
    running += 1;
    finish(photo).finally(() => { running -= 1; work(); });
  }
  const left = waiting.length + running;
  const faces = photos.flatMap((photo) => photo.records ?? []).filter((record) => record.status === 'ok').length;
  $('status').textContent = left ? `${left} photo(s) in progress …` : photos.length ? `${faces} face(s) in ${photos.length} photo(s).` : '';
}

async function finish(photo) {
  try {
    const records = await predictPatiently(photo.blob, photo.largest);
    photo.records = records.map((record) => ({...record, source: photo.name}));
  } catch (error) {
    const reason = error instanceof Refused ? error.message : 'the server can not be reached';
    photo.records = [{schema: 1, source: photo.name, status: 'unreadable', error: reason}];
  }
  if (photos.includes(photo)) show(photo);
}

function show(photo) {
  const good = photo.records.filter((record) => record.status === 'ok');
  const caption = photo.figure.querySelector('figcaption');
  caption.textContent = good.length ? `${photo.name}: ${good.map(words).join('; ')}` : `${photo.name}: ${photo.records[0].error}`;
  caption.classList.toggle('error', !good.length);
  const image = photo.figure.querySelector('img');
  const draw = () => drawFaces(photo.figure.querySelector('.faces'), good, image.naturalWidth, image.naturalHeight, photo);
  if (image?.complete && image.naturalWidth) draw();
  else image?.addEventListener('load', draw);
  drawTable();
}

const words = (record) => `${record.age.toFixed(1)} years (${span(record)})`;
const span = ({low, high}) => (Math.ceil(low) <= Math.floor(high) ? `${Math.ceil(low)} to ${Math.floor(high)}` : ((low + high) / 2).toFixed(1));

// Drawing

function make(name, properties = {}) {
  return Object.assign(document.createElement(name), properties);
}

function drawFaces(layer, records, width, height, photo = null) {
  layer.classList.toggle('many', records.length > FEW);
  layer.replaceChildren(...records.map((record) => {
    const [x, y, w, h] = record.box;
    const face = make('button', {type: 'button', className: 'face'});
    Object.assign(face.style, {left: `${100 * x / width}%`, top: `${100 * y / height}%`, width: `${100 * w / width}%`, height: `${100 * h / height}%`});
    face.setAttribute('aria-label', `Face ${record.face + 1}: ${words(record)}`);
    const plate = make('div', {className: 'plate', textContent: record.age.toFixed(1)});
    plate.append(make('span', {textContent: span(record)}), distribution(record));
    face.append(plate);
    const below = layer.clientHeight * (1 - (y + h) / height), above = layer.clientHeight * y / height;
    if (below < 75) face.classList.add(above > 75 ? 'above' : 'inside');
    const centre = layer.clientWidth * (x + w / 2) / width;
    if (centre < 60) face.classList.add('left');
    else if (layer.clientWidth - centre < 60) face.classList.add('right');
    for (const event of ['mouseenter', 'focus']) face.addEventListener(event, () => choose(photo, record));
    return face;
  }));
}

function distribution(record) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${YEARS} 20`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `Distribution: ${words(record)}`);
  const mass = (record.distribution ?? []).slice(0, YEARS + 1);
  const top = Math.max(...mass, 1e-9);
  const bars = (from, to, name) => {
    const path = document.createElementNS(SVG, 'path');
    const parts = mass.map((p, year) => (p > 0.002 * top && year >= from && year <= to ? `M${year} 19h1v${(-18 * p / top).toFixed(2)}h-1z` : ''));
    path.setAttribute('d', parts.join(''));
    path.setAttribute('class', name);
    return path;
  };
  const line = (x1, y1, x2, y2, name) => {
    const element = document.createElementNS(SVG, 'line');
    Object.entries({x1, y1, x2, y2, class: name, 'vector-effect': 'non-scaling-stroke'}).forEach(([key, value]) => element.setAttribute(key, value));
    return element;
  };
  svg.append(bars(0, YEARS, 'mass'), bars(record.low, record.high - 0.5, 'inside-interval'), line(0, 19.5, YEARS, 19.5, 'axis'),
    line(record.age + 0.5, 1, record.age + 0.5, 19, 'age'));
  return svg;
}

function choose(photo, record) {
  document.querySelectorAll('.chosen').forEach((element) => element.classList.remove('chosen'));
  if (!photo) return;
  const number = photo.records.indexOf(record);
  document.querySelector(`tr[data-photo="${photos.indexOf(photo)}"][data-record="${number}"]`)?.classList.add('chosen');
  photo.figure.querySelectorAll('.face')[record.face]?.classList.add('chosen');
}

function drawTable() {
  const rows = photos.flatMap((photo, place) => (photo.records ?? []).map((record, number) => {
    const row = make('tr');
    Object.assign(row.dataset, {photo: place, record: number});
    const ok = record.status === 'ok';
    const cells = ok ? [record.source, record.face + 1, record.age.toFixed(1), span(record)] : [record.source];
    cells.forEach((text, column) => row.append(make('td', {textContent: text, className: column ? 'number' : ''})));
    const last = make('td', ok ? {} : {textContent: record.error, className: 'error', colSpan: 4});
    if (ok) last.append(distribution(record));
    row.append(last);
    row.addEventListener('mouseenter', () => choose(photo, record));
    return row;
  }));
  $('rows').replaceChildren(...rows);
  $('results').hidden = !rows.length;
}

// Downloads

const allRecords = () => photos.flatMap((photo) => photo.records ?? []);

function cell(value) {
  if (value === null || value === undefined) return '';
  let text = String(value);
  if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;  // a spreadsheet would run it as a formula
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv() {
  const lines = allRecords().map((record) => {
    const [box_x, box_y, box_w, box_h] = record.box ?? [];
    const flat = {...record, box_x, box_y, box_w, box_h};
    return RECORD_COLUMNS.map((name) => cell(flat[name])).join(',');
  });
  return [RECORD_COLUMNS.join(','), ...lines, ''].join('\n');
}

function download(name, type, text) {
  const link = make('a', {download: name, href: URL.createObjectURL(new Blob([text], {type}))});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Camera

async function startCamera() {
  try {
    stream = await navigator.mediaDevices.getUserMedia({video: {facingMode: 'user', width: {ideal: 1280}}, audio: false});
  } catch (error) {
    $('status').textContent = `The camera can't be used: ${error.message}`;
    return;
  }
  $('video').srcObject = stream;
  $('camera').hidden = false;
  $('camera-start').disabled = true;
  await $('video').play();
  $('shoot').focus();
  live(stream);
}

function stopCamera() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = null;
  $('video').srcObject = null;
  $('live').replaceChildren();
  $('camera').hidden = true;
  $('camera-start').disabled = false;
}

function snapshot() {
  const video = $('video');
  const canvas = make('canvas', {width: video.videoWidth, height: video.videoHeight});
  canvas.getContext('2d').drawImage(video, 0, 0);
  return new Promise((done) => { canvas.toBlob(done, 'image/jpeg', 0.92); });
}

async function live(own) {
  while (stream === own) {
    const began = performance.now();
    if (!document.hidden && $('video').videoWidth) {
      try {
        const records = await predict(await snapshot(), $('largest').checked);
        if (stream !== own) return;
        drawFaces($('live'), records.filter((record) => record.status === 'ok'), $('video').videoWidth, $('video').videoHeight);
      } catch (error) {
        if (error instanceof Refused && error.status === 401) await askForToken();
        else await pause(error.wait || 1);
      }
    }
    await pause(Math.max(0, LIVE_EVERY - (performance.now() - began)) / 1000);
  }
}

// Events

$('choose').addEventListener('click', () => $('files').click());
$('files').addEventListener('change', () => { addFiles($('files').files); $('files').value = ''; });
$('camera-start').addEventListener('click', startCamera);
$('camera-stop').addEventListener('click', () => { stopCamera(); $('camera-start').focus(); });
$('shoot').addEventListener('click', async () => addPhoto(await snapshot(), `camera ${new Date().toLocaleTimeString()}`));
$('csv').addEventListener('click', () => download('ages.csv', 'text/csv', csv()));
$('json').addEventListener('click', () => download('ages.json', 'application/json', JSON.stringify(allRecords(), null, 1)));
$('clear').addEventListener('click', () => {
  photos.length = waiting.length = 0;
  $('photos').replaceChildren();
  drawTable();
  work();
  $('choose').focus();
});
document.addEventListener('paste', (event) => addFiles(event.clipboardData?.files ?? []));
document.addEventListener('dragover', (event) => { event.preventDefault(); $('drop').classList.add('over'); });
document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) $('drop').classList.remove('over'); });
document.addEventListener('drop', (event) => {
  event.preventDefault();
  $('drop').classList.remove('over');
  addFiles(event.dataTransfer?.files ?? []);
});

const here = location.hostname === 'localhost' || location.hostname === '[::1]' || /^127\./.test(location.hostname);
if (here) $('privacy').textContent = 'Photos don\'t leave this machine: they are read by the server that runs on it, and are not stored.';
if (!navigator.mediaDevices) {
  $('camera-start').disabled = true;
  $('camera-note').hidden = false;
}
