//! Reading JSON that may not be what it should be: a value of another type, out of range or `null` counts as not given.
//!
//! One odd object must not cost us the others in its list, nor the watch it came by. So only broken JSON is an error here.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Something that can be made of any JSON value: of the kinds it does not know, its default.
pub(crate) trait Lenient: Default {
    fn from_text(_text: &str) -> Self {
        Self::default()
    }

    fn from_bool(_value: bool) -> Self {
        Self::default()
    }

    fn from_unsigned(_number: u64) -> Self {
        Self::default()
    }

    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// For `#[serde(deserialize_with = "lenient")]`.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: Lenient>(deserializer: D) -> Result<T, D::Error> {
    Seed(PhantomData).deserialize(deserializer)
}

impl Lenient for String {
    fn from_text(text: &str) -> Self {
        text.to_owned()
    }
}

impl Lenient for Option<bool> {
    fn from_bool(value: bool) -> Self {
        Some(value)
    }
}

impl Lenient for Option<u16> {
    fn from_unsigned(number: u64) -> Self {
        u16::try_from(number).ok()
    }
}

impl<T: Lenient> Lenient for Vec<T> {
    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut items = Self::new();
        while let Some(item) = list.next_element_seed(Seed(PhantomData))? {
            items.push(item);
        }
        Ok(items)
    }
}

impl Lenient for BTreeMap<String, String> {
    fn from_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut entries = Self::new();
        while let Some(key) = map.next_key()? {
            entries.insert(key, map.next_value_seed(Seed(PhantomData))?);
        }
        Ok(entries)
    }
}

/// A structure, whose fields are lenient themselves: of anything but a map its default.
macro_rules! lenient_structs {
    ($($name:ty),+ $(,)?) => {$(
        impl $crate::lenient::Lenient for $name {
            fn from_map<'de, A: serde::de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
                serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }
    )+};
}
pub(crate) use lenient_structs;

struct Seed<T>(PhantomData<T>);

impl<'de, T: Lenient> DeserializeSeed<'de> for Seed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Lenient> Visitor<'de> for Seed<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from_text(text))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Ok(T::from_bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Ok(T::from_unsigned(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::from_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_map(map)
    }
}
