//! `Serialize` and `Deserialize` of `serde`.

#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_serde {
    ($id:ident) => {
        const _: () = {
            use ::std::result::Result;
            use $crate::__private::serde::{Deserialize, Deserializer, Serialize, Serializer};

            impl Serialize for $id {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    $crate::__private::serialize(self.get(), serializer)
                }
            }

            impl<'de> Deserialize<'de> for $id {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::__private::deserialize(deserializer).map(Self::new)
                }
            }
        };
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_serde {
    ($id:ident) => {};
}
